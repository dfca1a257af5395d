"""The device operations. One folder an op: public function, torch reference, Triton kernel."""
