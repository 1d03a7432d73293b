# plot.gp
#	The figures of doc/internals/mathematics.md, from the tables of the simulations:
#
#		gnuplot -e "from='build/sim/data'; to='doc/figures'" test/sim/plot.gp

load "test/sim/style.gp"
set samples 200
colour(k) = word(grey." ".red." ".blue." ".green." ".amber, k - 1)

# --- recovery around the threshold, 10^4 and 10^5 keys: Figure 1 ---------------

set output to."/recovery.svg"
set title "Keys listed around the threshold, k = 5"
set xlabel "cells for each key"
set ylabel "keys listed on average, %"
set xrange [1.378:1.482]
set yrange [0:105]
set format x "%.2f"
set xtics 0.02
set key bottom right
set arrow 1 from 1.425,0 to 1.425,105 nohead dt 2 lw 1.5 lc rgb grey
set label 1 "published threshold 1.425" at 1.424,97 right textcolor rgb grey
plot from."/recovery_theory.tsv" using 1:2 with lines lw 1.5 dt 2 lc rgb grey \
		title "keys without bound, by theory", \
	"" using 1:3 with lines lw 1.5 dt 2 lc rgb blue \
		title "10,000 keys, by theory", \
	"" using 1:4 with lines lw 1.5 dt 2 lc rgb red \
		title "100,000 keys, by theory", \
	from."/recovery.tsv" using ($1 == 10000 ? $2/$1 : NaN):4 with points \
		pt 7 ps 0.8 lc rgb blue title "10,000 keys", \
	"" using ($1 == 100000 ? $2/$1 : NaN):4 with points \
		pt 6 ps 1.2 lw 2 lc rgb red title "100,000 keys"

unset arrow 1
unset label 1
set autoscale
set xtics autofreq

# --- thresholds ------------------------------------------------------------------

set output to."/thresholds.svg"
set title "Thresholds: half of the tables decode"
set xlabel "k, hashes"
set ylabel "cells for each key"
set xrange [2.6:7.4]
set yrange [1.1:1.8]
set format x "%.0f"
set format y "%.1f"
set xtics 1
set key top left
plot from."/thresholds.tsv" using 1:2 with points pt 6 ps 1.8 lw 2 lc rgb grey \
		title "published, Table 1", \
	"" using 1:3 with lines lw 1.5 dt 2 lc rgb blue title "density evolution", \
	"" using 1:4:(4*$5) with yerrorbars pt 7 ps 0.6 lw 1.5 lc rgb red \
		title "the core, ± 4 standard errors"
set autoscale
set xtics autofreq
set format y "%g"

# --- cells for each difference --------------------------------------------------------

set output to."/cells.svg"
set title "Cells for each difference that decode in 99 % of trials"
set xlabel "differences"
set ylabel "cells for each difference"
set logscale xy
set xrange [1:2500]
set yrange [1.2:18]
set ytics (1.25, 1.5, 2, 3, 4, 6, 8, 12, 16)
set format x "%.0f"
set key top right opaque
plot for [k = 2:6] from."/cells.tsv" using 1:k with linespoints pt 7 ps 0.4 lw (k == 2 ? 1.5 : 2) \
		lc rgb colour(k) title sprintf("k = %d", k)
set autoscale
unset logscale
set ytics autofreq
set key noopaque

# --- the floor of k = 3 ------------------------------------------------------------------

set output to."/floor.svg"
set title "Failures in 60 cells: two keys that share all their cells"
set xlabel "differences d"
set ylabel "failed decodings"
set logscale y
set xrange [1.5:14.5]
set yrange [1e-5:2e-2]
set format x "%.0f"
set format y "10^{%T}"
set xtics 2
set key bottom right
plot x*(x-1)/2/8000.0 with lines lw 1.5 dt 2 lc rgb red \
		title "C(d,2) / 20^3", \
	from."/floor.tsv" using ($1 == 3 ? $2 : NaN):4:6 with yerrorbars pt 7 ps 0.6 \
		lw 1.5 lc rgb red title "k = 3", \
	x*(x-1)/2/50625.0 with lines lw 1.5 dt 2 lc rgb blue \
		title "C(d,2) / 15^4", \
	from."/floor.tsv" using ($1 == 4 ? $2 : NaN):4:6 with yerrorbars pt 5 ps 0.6 \
		lw 1.5 lc rgb blue title "k = 4"
set autoscale
unset logscale
set xtics autofreq

# --- meter and strata ------------------------------------------------------------------------

set output to."/estimators.svg"
set title "How well the size of a difference is estimated"
set xlabel "differing rows"
set ylabel "relative standard deviation, %"
set logscale x
set xrange [8:1.3e6]
set yrange [0:16]
set format x "10^{%T}"
set format y "%g"
set key bottom right
plot 100*sqrt(2*(1-1/x)/256) with lines lw 1.5 dt 2 lc rgb blue \
		title "√(2 (1 − 1/d) / 256)", \
	from."/meter.tsv" using 1:(100*$4):(100*$5) with yerrorbars pt 7 ps 0.6 \
		lw 1.5 lc rgb blue title "meter, 512 bytes", \
	from."/strata.tsv" using 1:(100*$4) with lines lw 1.5 lc rgb red notitle, \
	from."/strata.tsv" using 1:(100*$4):(100*$5) with yerrorbars pt 5 ps 0.6 \
		lw 1.5 lc rgb red title "strata, 72,240 bytes (30,720 with the paper's cells)"

# --- damaged keys: Figure 2 and Table 2 ------------------------------------------------------

set key top left
set ylabel "incomplete listings, % of trials"
set xlabel "damaged keys"
unset logscale
set format x "%.0f"
set format y "%g"
set yrange [0:100]

do for [i = 1:2] {
	n = 10000 * 10 ** (i - 1)
	set output to.word("/damaged_small.svg /damaged_large.svg", i)
	set title word("10,000 100,000", i)." keys in ".word("80,000 800,000", i) \
		." cells, some with two values, k = 5"
	set xrange [0:(i == 1 ? 3600 : 26000)]
	plot 100*(1-exp(-(n-x)*(1-(1-1/(1.6*n))**x)**5)) with lines lw 1.5 dt 2 \
			lc rgb red title "the paper's cells, by theory", \
		from."/damaged.tsv" using ($1 == n ? $2 : NaN):4:5 with yerrorbars pt 7 \
			ps 0.7 lc rgb red title "the paper's cells", \
		from."/damaged_table.tsv" using ($1 == n && $3 == 0 ? $2 : NaN):(100-$6) \
			with points pt 6 ps 1.8 lw 2 lc rgb grey title "published", \
		from."/damaged.tsv" using ($1 == n ? $2 : NaN):7 with lines lw 2 \
			lc rgb blue title "weighted cells"
}

# --- Theorem 2 -------------------------------------------------------------------------------

set output to."/theorem.svg"
set title "n^{1−β} damaged keys in 3 n of the paper's cells"
set xlabel "n, keys"
set ylabel "other keys lost in a trial, on average"
set logscale xy
set xrange [800:130000]
set yrange [1e-8:100]
set format x "10^{%T}"
set format y "10^{%T}"
set key bottom left
k(i) = int(word("3 8 7 6", i))
paint(i) = word(grey." ".red." ".blue." ".green, i)
plot for [i = 1:4] from."/theorem.tsv" using ($1 == k(i) ? $3 : NaN):($8 > 0 ? $8 : NaN) with points \
		pt int(word("9 7 5 11", i)) ps (i == 1 ? 1 : 0.9) lc rgb paint(i) \
		title sprintf("k = %d, β = 1/%s", k(i), word("4 4 3 2", i)), \
	for [i = 1:4] "" using ($1 == k(i) ? $3 : NaN):10 with lines lw 1.5 dt 2 lc rgb paint(i) notitle

# --- GET success as a size --------------------------------------------------------------------

set output to."/get_size.svg"
set title "Keys that GET does not find among 1,000"
set xlabel "cells for each key"
set ylabel "keys not found"
set xrange [1.3:30]
set yrange [5e-4:1]
set format x "%g"
set xtics (1.5, 2, 3, 4, 6, 8, 12, 16, 24)
set key bottom left
missed(c, k) = (1 - (1 - k/(c*1000.0))**999)**k
plot missed(x, 3) with lines lw 1.5 lc rgb red title "k = 3", \
	missed(x, 4) with lines lw 1.5 lc rgb blue title "k = 4", \
	missed(x, 5) with lines lw 1.5 lc rgb green title "k = 5", \
	missed(x, 7) with lines lw 1.5 lc rgb amber title "k = 7", \
	missed(x, 8) with lines lw 1.5 lc rgb violet title "k = 8", \
	from."/get_size.tsv" using ($2 == 1000 && $1 != 6 ? $4 : NaN):6:7 with yerrorbars \
		pt 7 ps 0.6 lc rgb grey title "the core"
unset logscale
set xtics autofreq

# --- 50 cells ---------------------------------------------------------------------------------

set output to."/set_size.svg"
set title "Differences decoded from 52 cells, k = 4, by the size of the sets"
set xlabel "differences"
set ylabel "decoded, % of trials"
set xrange [0:62]
set yrange [0:105]
set format x "%.0f"
set format y "%g"
set key bottom left
plot from."/set_size.tsv" using ($1 == 100 ? $2 : NaN):5 with lines lw 1.5 dt 2 \
		lc rgb grey title "keys in random cells", \
	"" using ($1 == 100 ? $2 : NaN):4 with points pt 6 ps 2.2 lc rgb red title "100 keys", \
	"" using ($1 == 1000 ? $2 : NaN):4 with points pt 4 ps 1.8 lc rgb blue title "1,000", \
	"" using ($1 == 10000 ? $2 : NaN):4 with points pt 8 ps 1.4 lc rgb green title "10,000", \
	"" using ($1 == 100000 ? $2 : NaN):4 with points pt 12 ps 1.1 lc rgb amber title "100,000", \
	"" using ($1 == 1000000 ? $2 : NaN):4 with points pt 7 ps 0.5 lc rgb violet title "1,000,000"

set output to."/hash_count.svg"
set title "Differences decoded from some 50 cells, by the number of hashes"
plot for [k = 2:6] from."/hash_count.tsv" using ($1 == k ? $3 : NaN):5 with linespoints pt 7 ps 0.6 \
		lw 1.5 lc rgb colour(k) \
		title sprintf(k == 2 ? "k = %d, %d cells" : "k = %d, %d", k, (50 + k / 2) / k * k)
set autoscale
