/* Angles of rotary positions, in units of 2^-24 of a turn, and their cosine: the languages' own functions differ in
 * accuracy from driver to driver. After formulas.h, written once for OpenCL C and GLSL as that is. */
#ifndef WHERRY_KERNEL_ANGLES_H
#define WHERRY_KERNEL_ANGLES_H

#ifdef __OPENCL_C_VERSION__
#define FORMULA_UINT (uint)
#define FORMULA_FLOAT (float)
#else
#define FORMULA_UINT uint
#define FORMULA_FLOAT float
#endif

#define ANGLE_QUARTER 0x400000u /* of a turn */

/* Units of a position's angle that are whole, but for whole turns, where each position has `whole` units and `part` of
 * one: the product with the former is exact in its lowest bits. */
FORMULA uint angle_units(uint position, float whole, float part)
{
    return position * FORMULA_UINT(whole) + FORMULA_UINT(FORMULA_FLOAT(position) * part);
}

/* What is left of a unit. */
FORMULA float angle_rest(uint position, float part)
{
    float units = FORMULA_FLOAT(position) * part;
    return units - FORMULA_FLOAT(FORMULA_UINT(units));
}

/* The cosine of an angle of units + rest; its sine is that of a quarter of a turn less. From the nearest quarter on by
 * the minimax fit of cosine or sine up to 1/8 of a turn. Absolute error below 2e-7. */
FORMULA float angle_cosine(uint units, float rest)
{
    uint shifted = units + ANGLE_QUARTER / 2u, quarter = (shifted >> 22u) & 3u;
    float from = FORMULA_FLOAT(shifted & (ANGLE_QUARTER - 1u)) - 2097152.0f; /* half a quarter */
    float x = 3.74507035e-7f * (from + rest), z = x * x;
    float even = fma(fma(fma(fma(2.44383705e-5f, z, -1.38873668e-3f), z, 4.16666469e-2f), z, -0.5f), z, 1.0f);
    float odd = fma(fma(fma(-1.94955585e-4f, z, 8.33197805e-3f), z, -1.66666507e-1f), z * x, x);
    float turned = (quarter & 1u) != 0u ? odd : even;
    return quarter == 1u || quarter == 2u ? -turned : turned;
}

#endif
