"""Step times against the byte floor: what one step costs on this device, stage by stage."""
