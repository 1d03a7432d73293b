# style.gp
#	What all figures have in common.  The background is opaque, so that a figure reads the same on
#	any page.

if (!exists("from")) from = "build/sim/data"
if (!exists("to")) to = "doc/figures"

set encoding utf8
set terminal svg size 760,460 dynamic font "sans-serif,13" \
	background rgb "#ffffff" name "iblt"
set border 3 lw 1 lc rgb "#444444"
set tics nomirror out textcolor rgb "#222222"
set grid lc rgb "#dddddd" lw 1 lt 1
set key textcolor rgb "#222222" samplen 2 spacing 1.2
set title textcolor rgb "#000000"
set xlabel textcolor rgb "#222222"
set ylabel textcolor rgb "#222222"
set datafile separator "\t"

blue = "#0b62b8"
red = "#c8321e"
green = "#1f8a3b"
amber = "#c77700"
violet = "#7a3ea8"
grey = "#666666"
