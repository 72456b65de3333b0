#!/bin/sh
# Checks the links of all documents, and builds the site where mdbook is (cargo install mdbook): target/site.
# `scripts/docs.sh links` checks alone.
set -eu
failed=0
complain() {
	echo "$1" >&2
	failed=1
}
is_of_site() {
	case $(realpath --relative-to=. "$1") in docs/*) true ;; *) false ;; esac
}
# Links to files, and to headings of files: [text](path#heading)
mkdir -p target
for document in *.md docs/*.md docs/schemes/*.md docs/reference/*.md; do
	folder=$(dirname "$document")
	grep -n -o '](\([^)]*\))' "$document" | sed 's/](\(.*\))$/\1/' | while IFS=: read -r line target; do
		case $target in http:* | https:* | mailto:*) continue ;; esac
		path=${target%%#*}
		heading=
		case $target in *'#'*) heading=${target#*#} ;; esac
		file=$document
		[ -z "$path" ] || file=$folder/$path
		if [ ! -e "$file" ]; then
			echo "$document:$line: there is no $file"
		elif is_of_site "$document" && ! is_of_site "$file"; then
			echo "$document:$line: $file is not in docs, and so not on the site"
		elif [ -n "$heading" ] && ! sed -n 's/^##* *//p' "$file" | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9_\n-' | grep -qx -- "$heading"; then
			echo "$document:$line: $file has no heading $heading"
		fi
	done
done >target/links.txt
if [ -s target/links.txt ]; then
	cat target/links.txt >&2
	failed=1
fi
# Every document is in the table of contents, and every entry there is a document.
for document in docs/*.md docs/schemes/*.md docs/reference/*.md; do
	name=${document#docs/}
	[ "$name" = SUMMARY.md ] || grep -q "($name)" docs/SUMMARY.md || complain "$document is not in docs/SUMMARY.md"
done
[ $failed = 0 ] || exit 1
echo "all links of $(ls ./*.md docs/*.md docs/schemes/*.md docs/reference/*.md | wc -l) documents lead somewhere"
[ "${1:-}" != links ] || exit 0
if command -v mdbook >/dev/null; then
	mdbook build --dest-dir "$PWD/target/site"
else
	echo "mdbook is not here (cargo install mdbook --locked): the documents are the site's source, docs/SUMMARY.md its contents"
fi
