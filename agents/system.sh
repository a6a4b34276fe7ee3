# Gets programs into a sandbox by its image's own package manager: certificates, and
# pip where a registry's client is missing. Does nothing where all is there. An npm of
# Debian's would bring hundreds of packages; pip has Node.js with npm in one.
set -eu
want=
[ -s /etc/ssl/certs/ca-certificates.crt ] || [ -s /etc/pki/tls/certs/ca-bundle.crt ] || want=ca-certificates
for program; do
  [ "$program" = npm ] && command -v npm >/dev/null || python3 -m pip --version >/dev/null 2>&1 || want="$want pip"
done
[ -n "$want" ] || exit 0
has() { command -v "$1" >/dev/null; }
named() { # pip as the package manager calls it
  for name in $want; do
    [ "$name" = pip ] && echo "$1" || echo "$name"
  done
}
ca=${SSL_CERT_FILE:-}
if has apt-get; then
  export DEBIAN_FRONTEND=noninteractive
  apt-get ${ca:+-o Acquire::https::CAInfo="$ca"} -o Acquire::Retries=3 -qq update
  apt-get ${ca:+-o Acquire::https::CAInfo="$ca"} -o Acquire::Retries=3 -qq install -y --no-install-recommends $(named python3-pip) >/dev/null
elif has apk; then
  apk add --quiet --no-cache $(named py3-pip)
elif has dnf; then
  dnf install -y -q $(named python3-pip)
elif has microdnf; then
  microdnf install -y $(named python3-pip)
elif has yum; then
  yum install -y -q $(named python3-pip)
else
  echo "the image has no package manager that is known (apt-get, apk, dnf, yum), and lacks: $want" >&2
  exit 1
fi
