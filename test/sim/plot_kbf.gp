# plot_kbf.gp
#	The figures of doc/kbf/kbf.md, from the tables of the simulations:
#
#		gnuplot -e "from='build/sim/data'; to='doc/figures'" test/sim/plot_kbf.gp

load "test/sim/style.gp"

# --- bits a key, 255 values -----------------------------------------------------

bits(t) = sprintf("awk -F'\t' '$1 == 255 && $2 == %d' %s/kbf_sizes.tsv", t, from)

set output to."/kbf_size.svg"
set title "Bits for each key, 255 values"
set xlabel "failure: unknown keys here, false positives in the others"
set ylabel "bits for each key"
set logscale x 10
set xrange [0.2:5e-7]
set format x "10^{%T}"
set logscale y 2
set yrange [8:12000]
set ytics (8, 16, 32, 64, 128, 256, 512, 1024)
set key top left
plot "< ".bits(3) using 3:9 with lines lw 2 dt 2 lc rgb grey title "kBF as published", \
	"< ".bits(1) using 3:6 with linespoints pt 7 ps 0.7 lw 1.5 lc rgb amber title "kbf, superposed 1", \
	"< ".bits(2) using 3:6 with linespoints pt 7 ps 0.7 lw 1.5 lc rgb red title "kbf, superposed 2", \
	"< ".bits(3) using 3:6 with linespoints pt 7 ps 0.7 lw 2 lc rgb blue title "kbf, superposed 3", \
	"< ".bits(3) using 3:7 with lines lw 1.5 lc rgb green title "cuckoo map", \
	"< ".bits(3) using 3:8 with lines lw 1.5 lc rgb violet title "static ribbon map"
unset logscale
set format x "%g"
set ytics auto

# --- decoding ---------------------------------------------------------------------

at(k) = sprintf("awk -F'\t' '$1 == %d' %s/kbf_decode.tsv", k, from)

set output to."/kbf_decode.svg"
set title "Keys in the filter that are not decoded"
set xlabel "load coefficient ρ (n k / m = ρ ln 2)"
set ylabel "share of the keys"
set xrange [0.9:3.1]
set logscale y 10
set yrange [1e-14:2]
set format y "10^{%T}"
set key bottom right
k(i) = int(word("3 5 10", i))
paint(i) = word(amber." ".red." ".blue." ".green, i)
plot for [i = 1:3] "< ".at(k(i)) using 2:($3 > 0 ? $3 : NaN) with points pt 7 ps 0.9 lc rgb paint(i) title sprintf("k = %d", k(i)), \
	for [i = 1:3] "< ".at(k(i)) using 2:4 with lines lw 1.5 lc rgb paint(i) notitle, \
	for [i = 1:3] "< ".at(k(i)) using 2:5 with lines lw 1.5 dt 2 lc rgb paint(i) notitle, \
	NaN with lines lw 1.5 lc rgb grey title "corrected formula", \
	NaN with lines lw 1.5 dt 2 lc rgb grey title "published formula"

# --- the workload: false positives and false negatives -------------------------------

half(h) = sprintf("awk -F'\t' '$3 == %d' %s/kbf_workload.tsv", h, from)

set output to."/kbf_workload.svg"
set title "The published parameters: 200,000 keys, 3000 values"
set xlabel "p, for which m and k are chosen"
set ylabel "share of the keys"
set logscale x 10
set xrange [2e-3:5e-7]
set format x "10^{%T}"
set yrange [1e-18:1]
set key bottom left
plot "< ".half(1) using 1:9 with points pt 7 ps 0.9 lc rgb blue title "false positives, m cells", \
	"" using 1:10 with lines lw 1.5 lc rgb blue notitle, \
	"< ".half(2) using 1:9 with points pt 7 ps 0.9 lc rgb red title "false positives, m/2 cells", \
	"" using 1:10 with lines lw 1.5 lc rgb red notitle, \
	"< ".half(2) using 1:($6 > 0 ? $6 : NaN) with points pt 6 ps 1 lw 1.5 lc rgb green title "false negatives, m/2 cells", \
	"" using 1:7 with lines lw 1.5 lc rgb green notitle, \
	"< ".half(2) using 1:12 with lines lw 1.5 dt 2 lc rgb violet title "false positives if all cells must agree, m/2, theory"

# --- deletes --------------------------------------------------------------------------

gone(p, h) = sprintf("awk -F'\t' '$1 == %s && $2 == %d' %s/kbf_delete.tsv", p, h, from)

set output to."/kbf_delete.svg"
set title "Deleted keys that are still found, m/2 cells"
set xlabel "keys deleted, %"
set ylabel "share of the deleted keys"
unset logscale x
set format x "%g"
set xrange [8:42]
set yrange [1e-6:0.1]
set key top right
p(i) = word("0.001 0.0001 1e-05 1e-06", i)
plot for [i = 1:4] "< ".gone(p(i), 2) using 3:($4 > 0 ? $4 : NaN) with points pt 7 ps 0.9 lc rgb paint(i) title sprintf("p = 10^{-%d}", i + 2), \
	for [i = 1:4] "< ".gone(p(i), 2) using 3:5 with lines lw 1.5 lc rgb paint(i) notitle

# --- flows ------------------------------------------------------------------------------

flow(name) = sprintf("awk -F'\t' '$2 == \"%s\" && $3 == \"changing\"' %s/kbf_flow.tsv", name, from)

set output to."/kbf_flow.svg"
set title "100,000 flows that come and go: packets without the right state"
set xlabel "bits for each flow"
set ylabel "share of the packets"
set xrange [0:800]
set yrange [1e-6:1]
set key top right
plot for [i = 1:3] "< ".flow(word("sbf kbf ours", i)) using 8:($5 + $6 + $7 > 0 ? $5 + $6 + $7 : NaN) with linespoints pt 7 ps 0.8 \
		lw 1.5 lc rgb word(red." ".amber." ".blue, i) title word("sBF 'kBF as published' kbf", i)

# --- encodings ----------------------------------------------------------------------------

set output to."/kbf_codes.svg"
set title "Bits of an encoding whose sums of two are unique"
set xlabel "values"
set ylabel "bits"
set logscale x 10
set xrange [3:20000]
set format x "%g"
unset logscale y
set format y "%g"
set yrange [0:36]
set key top left
plot from."/kbf_codes.tsv" using 1:($2 > 0 ? $2 : NaN) with points pt 7 ps 0.6 lc rgb red title "the published search", \
	"" using 1:4 with steps lw 1.5 lc rgb blue title "by algebra", \
	"" using 1:3 with lines lw 1.5 dt 2 lc rgb grey title "bound", \
	"< printf '16384\t30\n'" using 1:2 with points pt 4 ps 1.3 lw 2 lc rgb amber title "published for 2^{14} values"
