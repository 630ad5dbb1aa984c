#version 450
#extension GL_GOOGLE_include_directive : require
/* Elements of outputs, for checking what layout_rows and layout_product write: SPOIL puts a value there that no kernel
 * gives, GATHER copies them to floats. Element number i is X or Y [IDS[i]]. Twin of cl/layout_samples.cl. */
#include "common.glsl"
#include "layouts.h"

layout(constant_id = CONST_FORM) const uint FORM = LAYOUT_SPOIL;

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT_OF(SLOT_X, storage, x);
INPUT_OF(SLOT_IDS, uint, ids);
layout(set = 0, binding = SLOT_Y) writeonly buffer y_elements { storage y[]; };
layout(set = 0, binding = SLOT_Y) writeonly buffer y_words { float y_floats[]; };

void main()
{
    const uint i = group_number() * LOCAL_SIZE + local_number();
    if (batch[LAYOUT_LIVE] != 0 && i < batch[LAYOUT_COUNT]) {
        if (FORM == LAYOUT_GATHER) {
            y_floats[i] = LOAD(x, ids[i]);
        } else {
            STORE(y, ids[i], LAYOUT_SPOILED);
        }
    }
}
