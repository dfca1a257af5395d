# Sent to a box: download a file to its .part, going on where that ends; name it when it is right.
# sh -c TEXT sh URL PATH SHA256 SIZE PYTHON
# SHA256 and SIZE may be empty; PYTHON is box_fetch.py, for a box without curl.
# Standard input is a curl configuration: it may hold a token, which no list of arguments may.
umask 022
part=$2.part
secret=$(cat)
size() { stat -c %s "$part" 2>/dev/null || echo 0; }

with_curl() {
  tries=0
  while :; do
    before=$(size)
    said=$(printf '%s\n' "$secret" |
      curl --config - --fail --silent --show-error --location --continue-at - \
        --connect-timeout 10 --speed-limit 1024 --speed-time 30 \
        --write-out '%{http_code} %{num_redirects}' --output "$part" -- "$1") && return
    code=$?
    case "$code $said" in
    "22 416 "*) [ "$before" = 0 ] || return 0 ;; # nothing is missing
    "22 403 0") return $code ;;
    "22 403 "*) ;; # a signed link behind a redirect ran out
    "22 408 "* | "22 425 "* | "22 429 "* | "22 5"*) ;;
    "22 "* | "23 "*) return $code ;; # 23: it cannot be written
    "33 "*) rm -f "$part" ;;         # the server knows no ranges
    esac
    if [ "$(size)" -gt "$before" ]; then
      tries=0
    else
      tries=$((tries + 1))
      [ $tries -lt 8 ] || return $code
      sleep $((tries < 5 ? 1 << tries : 30))
    fi
  done
}

folder=$(dirname "$2")
mkdir -p "$folder" && exec 9<"$folder" && flock 9 || exit # one that lost its ddops may still run
[ -n "$3" ] || rm -f "$part" # nothing could tell whether the rest belongs to this part
if [ -n "$4" ] && [ "$(size)" = "$4" ]; then
  :
elif command -v curl >/dev/null; then
  with_curl "$1" || exit
elif command -v python3 >/dev/null; then
  printf '%s\n' "$secret" | python3 -c "$5" "$1" "$part" || exit
else
  echo "neither curl nor python3 is installed" >&2
  exit 90
fi
