#!/bin/sh
# Writes the digest that its registry has for it behind the version of every image of another project, in these files:
#   docker/digests.sh FILE...
# Needs Docker's buildx. A digest that is there already is replaced. Our own images are built here, and have none.
set -eu
digest='@sha256:[0-9a-f]\{64\}'
grep -h -o -E '(image:|^ARG BASE=) *[a-z/]+:v?[0-9][A-Za-z0-9._-]*' "$@" \
    | sed 's/^image: *//; s/^ARG BASE=//' | grep -v '^interlinear-' | sort -u | while read -r image; do
    found=$(docker buildx imagetools inspect --format '{{.Manifest.Digest}}' "$image")
    echo "$found" | grep -q -x -E 'sha256:[0-9a-f]{64}' || { echo "digests.sh: no digest of $image: $found" >&2; exit 1; }
    name=$(echo "$image" | sed 's/[.]/[.]/g')
    sed -i "s|\([ =]\)$name\($digest\)\{0,1\}\$|\1$image@$found|" "$@"
    echo "$image@$found"
done
