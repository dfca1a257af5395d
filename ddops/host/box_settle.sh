# Sent to a box after what fills $part: check it against SHA256 ($3) and SIZE ($4), name it $2.
found=$(sha256sum <"$part") || exit
found=${found%% *}
size=$(stat -c %s "$part")
if [ "${3:-$found}" != "$found" ] || [ "${4:-$size}" != "$size" ]; then
  rm -f "$part"
  echo "$size bytes with sha256 $found instead of ${4:-any} with ${3:-any}" >&2
  exit 91
fi
sync "$part" && mv -fT "$part" "$2" && stat -c "$found %s %.9Y" "$2"
