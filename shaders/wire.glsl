/* What is in messages of gradients. Included after common.glsl and wire.h. */

layout(constant_id = CONST_FORM) const uint FORM = WIRE_FORM_F32;

/* What is in a message's head, of words that stand for 16 bits. */
uint head_word(const uint word, const int exponent, const uint factor)
{
    return word == WIRE_HEAD_EXPONENT ? uint(exponent) : word == WIRE_HEAD_FACTOR ? factor : 0;
}
