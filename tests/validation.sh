#!/usr/bin/env bash
# validation.sh TEST
# Runs a test program under Vulkan's validation layers, core and synchronization, above those of VK_INSTANCE_LAYERS. Their messages come to standard output:
# the one that says that they are active must be there, and no other.
set -u

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/vk_layer_settings.txt" <<'SETTINGS'
khronos_validation.debug_action = VK_DBG_LAYER_ACTION_LOG_MSG
khronos_validation.report_flags = info,warn,perf,error
khronos_validation.log_filename = stdout
khronos_validation.enables = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT
khronos_validation.validate_sync = true
SETTINGS
VK_LAYER_SETTINGS_PATH="$folder/vk_layer_settings.txt" VK_INSTANCE_LAYERS=VK_LAYER_KHRONOS_validation${VK_INSTANCE_LAYERS:+:$VK_INSTANCE_LAYERS} \
    "$@" >"$folder/log" 2>&1
status=$?
fail() {
    tail -n 60 "$folder/log"
    echo "validation.sh: $1" >&2
    exit 1
}
[ $status = 0 ] || [ $status = 77 ] || fail "$* failed under the validation layers (exit status $status)"
[ $status = 0 ] || exit $status
grep -q 'Khronos Validation Layer Active' "$folder/log" || fail "the validation layers were not active"
grep -qi 'enables:.*sync' "$folder/log" || fail "synchronization validation was not active"
if grep -E 'Validation (Error|Warning|Performance)' "$folder/log"; then fail "the validation layers complain"; fi
