/*
 * gf.c
 *		Codes over GF(2^q), and the values of a sum of codes.
 */
#include "gf.h"

const uint16_t iblt_core_gf_modulus[IBLT_GF_MAX_DEGREE + 1] = {
	[3] = 0x00b, [4] = 0x013, [5] = 0x025, [6] = 0x043, [7] = 0x083,
	[8] = 0x11d, [9] = 0x211, [10] = 0x409, [11] = 0x805, [12] = 0x1053
};

/* Term number i of a code: x, x^3 or x^5. */
static unsigned
term(uint64_t code, int degree, int i)
{
	return (unsigned) (code >> (i * degree)) & gf_values(degree);
}

uint64_t
iblt_core_gf_encode(unsigned x, int degree, int terms)
{
	unsigned	square = gf_mul(x, x, degree);
	unsigned	power = x;
	uint64_t	code = x;
	int			i;

	for (i = 1; i < terms; i++)
	{
		power = gf_mul(power, square, degree);
		code |= (uint64_t) power << (i * degree);
	}
	return code;
}

/*
 * A linear map of GF(2^degree) over GF(2) in echelon form.  The row of a bit
 * has it as the highest one of an image, and the argument of that image.
 */
typedef struct LinearMap
{
	int			degree;
	uint16_t	image[IBLT_GF_MAX_DEGREE];	/* 0 if no image begins here */
	uint16_t	argument[IBLT_GF_MAX_DEGREE];
	int			nullity;		/* dimension of the kernel */
	uint16_t	kernel[IBLT_GF_MAX_DEGREE]; /* its basis */
} LinearMap;

/*
 * Subtracts rows from an image until it is 0 or begins with a bit that no row
 * begins with.  argument follows.
 */
static unsigned
reduce(const LinearMap *map, unsigned image, unsigned *argument)
{
	int			bit;

	for (bit = map->degree - 1; bit >= 0; bit--)
		if ((image >> bit & 1) != 0)
		{
			if (map->image[bit] == 0)
				break;
			image ^= map->image[bit];
			*argument ^= map->argument[bit];
		}
	return image;
}

/* The product of an element and the n-th power of z. */
static unsigned
shift_up(unsigned a, int n, int degree)
{
	for (; n > 0; n--)
	{
		a <<= 1;
		a ^= iblt_core_gf_modulus[degree] & -(a >> degree);
	}
	return a;
}

/*
 * The map z -> a z^4 + b z^2 + c z.  From one power of z to the next its terms
 * are multiplied by z^4, z^2 and z, which is faster than three products.
 */
static void
set_map(LinearMap *map, int degree, unsigned a, unsigned b, unsigned c)
{
	int			i;

	*map = (LinearMap) {.degree = degree};
	for (i = 0; i < degree; i++)
	{
		unsigned	argument = 1u << i;
		unsigned	image = reduce(map, a ^ b ^ c, &argument);
		int			bit = degree - 1;

		a = shift_up(a, 4, degree);
		b = shift_up(b, 2, degree);
		c = shift_up(c, 1, degree);
		if (image == 0)
		{
			map->kernel[map->nullity++] = (uint16_t) argument;
			continue;
		}
		while ((image >> bit & 1) == 0)
			bit--;
		map->image[bit] = (uint16_t) image;
		map->argument[bit] = (uint16_t) argument;
	}
}

/*
 * With sums s1 and s3 of the first and third powers, x and y are the roots of
 * s1 z^2 + s1^2 z = s3 + s1^3, whose left side is linear with kernel {0, s1}.
 */
static bool
split_pair(uint64_t sum, int degree, unsigned *value)
{
	unsigned	s1 = term(sum, degree, 0);
	unsigned	square = gf_mul(s1, s1, degree);
	unsigned	right = term(sum, degree, 1) ^ gf_mul(square, s1, degree);
	unsigned	root = 0;
	LinearMap	map;

	/* with right = 0 one of the values would be 0 */
	if (s1 == 0 || right == 0)
		return false;
	set_map(&map, degree, 0, s1, square);
	if (reduce(&map, right, &root) != 0)
		return false;
	value[0] = root;
	value[1] = root ^ s1;
	return true;
}

/*
 * Let s1, s3, s5 be the sums of powers, and d = s1^3 + s3, which is the product
 * of the sums of two values each.  Then y = x + s1 of each value x solves
 * y^3 + (s1^5 + s5) / d * y + d = 0.  Multiplied by d y this is
 * d y^4 + (s1^5 + s5) y^2 + d^2 y = 0.  The left side is linear, and three
 * different values are a kernel of dimension 2.
 */
static bool
split_triple(uint64_t sum, int degree, unsigned *value)
{
	unsigned	s1 = term(sum, degree, 0);
	unsigned	square = gf_mul(s1, s1, degree);
	unsigned	cube = gf_mul(square, s1, degree);
	unsigned	d = cube ^ term(sum, degree, 1);
	unsigned	b = gf_mul(cube, square, degree) ^ term(sum, degree, 2);
	LinearMap	map;

	if (d == 0)
		return false;
	set_map(&map, degree, d, b, gf_mul(d, d, degree));
	if (map.nullity != 2)
		return false;
	value[0] = map.kernel[0] ^ s1;
	value[1] = map.kernel[1] ^ s1;
	value[2] = value[0] ^ value[1] ^ s1;
	return value[0] != 0 && value[1] != 0 && value[2] != 0;
}

bool
iblt_core_gf_split(uint64_t sum, int count, int degree, int terms,
				   unsigned *value)
{
	int			i;

	value[0] = term(sum, degree, 0);
	if (count == 1 ? value[0] == 0
		: count == 2 ? !split_pair(sum, degree, value)
		: !split_triple(sum, degree, value))
		return false;
	for (i = 0; i < count; i++)
		sum ^= iblt_core_gf_encode(value[i], degree, terms);
	return sum == 0;
}
