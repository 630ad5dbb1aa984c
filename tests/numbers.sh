#!/bin/sh
# In the library numbers with a fraction become text, and text becomes such numbers, in core/base/number.c alone: the C
# library's functions follow the locale of the application. The first operand is the repository's root.
cd "$1" || exit 1
if grep -rnE '\b(strto(d|f|ld)|atof|[fs]?scanf)\(.*' core backends --include='*.[ch]' | grep -v '^core/base/number\.c:' |
    grep -vE 'scanf\([a-z]+, "[^"%]*(%[ux][^"%]*)+"'; then
    echo 'these read numbers by the locale: number_read of base/number.h does not'
    exit 1
fi
if grep -rnE '"[^"]*%[-+ 0#]*([0-9]+|\*)?(\.([0-9]+|\*))?[eEfFgGaA]([^a-zA-Z]|$)' core backends --include='*.[ch]' |
    grep -vE '^core/base/number\.[ch]:|NUMBER\("'; then
    echo 'these print numbers by the locale: NUMBER of base/number.h does not'
    exit 1
fi
