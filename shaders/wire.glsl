/* What is in messages of gradients. Included after common.glsl and wire.h. */

layout(constant_id = CONST_FORM) const uint FORM = WIRE_FORM_F32;

/* Two of a message's 16 bits as floats. */
vec2 wire_floats(const uint raw)
{
    return FORM == WIRE_FORM_BF16 ? uintBitsToFloat(uvec2(raw << 16, raw & 0xffff0000u)) : unpackHalf2x16(raw);
}

/* What is in a message's head, of words that stand for 16 bits. */
uint head_word(const uint word, const int exponent, const uint factor)
{
    return word == WIRE_HEAD_EXPONENT ? uint(exponent) : word == WIRE_HEAD_FACTOR ? factor : 0;
}
