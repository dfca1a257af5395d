# Sent to a box: take a member out of a zip file into a .part.
# sh -c TEXT sh ARCHIVE PATH SHA256 SIZE PYTHON MEMBER
part=$2.part
mkdir -p "$(dirname "$2")" || exit
command -v python3 >/dev/null || { echo "python3 is not installed" >&2; exit 90; }
python3 -c "$5" "$1" "$6" "$part" || exit
