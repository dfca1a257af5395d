# Boot one test box, again after each reboot: sh boot.sh ROOTFS NAME [NSPAWN OPTION...]
# Runs in mount, network and pid namespaces of its own: whatever ends it leaves nothing behind.
set -eu
rootfs=$1 name=$2
shift 2
work=/run/ddops-box
mkdir -p $work
mount -t tmpfs -o mode=755 tmpfs $work # an overlay's upper layer may not lie on another overlay
mkdir $work/upper $work/work $work/root
mount -t overlay overlay -o "lowerdir=$rootfs,upperdir=$work/upper,workdir=$work/work" $work/root
ip link set lo up
while :; do
  code=0
  systemd-nspawn --quiet --register=no --keep-unit --machine="$name" --directory=$work/root \
    --network-namespace-path=/proc/self/ns/net --resolv-conf=off --timezone=off --link-journal=no \
    --boot --console=passive "$@" || code=$?
  [ $code = 133 ] || exit $code # 133: reboot
done
