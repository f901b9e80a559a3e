//! Known ids and offsets, written down independently of the generator, and the tables against
//! each other.

use super::*;

#[test]
fn names_of_known_ids() {
    for (op, name) in [
        (0, "hipApiName"),
        (11, "hipChooseDevice"),
        (81, "hipEventRecord"),
        (84, "hipExtLaunchKernel"),
        (85, "hipExtLaunchMultiKernelMultiDevice"),
        (90, "hipFree"),
        (92, "hipFreeAsync"),
        (166, "hipGraphLaunch"),
        (211, "hipLaunchCooperativeKernel"),
        (212, "hipLaunchCooperativeKernelMultiDevice"),
        (214, "hipLaunchKernel"),
        (215, "hipMalloc"),
        (219, "hipMallocAsync"),
        (259, "hipMemcpy"),
        (268, "hipMemcpyAsync"),
        (273, "hipMemcpyDtoHAsync"),
        (283, "hipMemcpyPeerAsync"),
        (287, "hipMemcpyWithStream"),
        (293, "hipMemsetAsync"),
        (306, "hipModuleLaunchCooperativeKernel"),
        (307, "hipModuleLaunchCooperativeKernelMultiDevice"),
        (308, "hipModuleLaunchKernel"),
        (346, "hipStreamSynchronize"),
        (348, "hipStreamWaitEvent"),
        (388, "hipExtModuleLaunchKernel"),
        (389, "hipHccModuleLaunchKernel"),
        (418, "hipLaunchCooperativeKernel_spt"),
        (419, "hipLaunchKernel_spt"),
        (474, "hipLaunchKernelExC"),
        (476, "hipMemGetHandleForAddressRange"),
        (477, "hipModuleGetFunctionCount"),
        (487, "hipMemcpyBatchAsync"),
        (488, "hipMemcpy3DBatchAsync"),
        (489, "hipMemcpy3DPeer"),
        (516, "hipKernelGetFunction"),
    ] {
        assert_eq!(hip_operation_name(op), Some(name));
        assert_eq!(hip_operation_id(name), Some(op));
    }
    assert_eq!(op::hipLaunchKernel, 214);
    assert_eq!(hip_operation_name(517), None);
    assert_eq!(hip_operation_name(u32::MAX), None);
    assert_eq!(hip_operation_id("hipNoSuchThing"), None);
}

#[test]
fn stream_offsets_of_known_ids() {
    for (op, stream) in [
        (214, Some(48)),
        (84, Some(48)),
        (211, Some(48)),
        (308, Some(40)),
        (388, Some(40)),
        (474, None),
        (259, None),
        (268, Some(32)),
        (287, Some(32)),
        (273, Some(24)),
        (283, Some(40)),
        (293, Some(24)),
        (215, None),
        (219, Some(16)),
        (92, Some(8)),
        (166, Some(8)),
        (346, Some(0)),
        (81, Some(8)),
        (348, Some(0)),
        (516, None),
        (517, None),
        (u32::MAX, None),
    ] {
        assert_eq!(hip_stream_offset(op), stream, "operation {op}");
    }
}

#[test]
fn streams_are_created_by_four_calls_and_destroyed_by_one() {
    let created: Vec<&str> = (0..=HIP_OPERATION_COUNT as u32)
        .filter(|&op| hip_stream_out_offset(op) == Some(0))
        .filter_map(hip_operation_name)
        .collect();
    assert_eq!(
        created,
        [
            "hipExtStreamCreateWithCUMask",
            "hipStreamCreate",
            "hipStreamCreateWithFlags",
            "hipStreamCreateWithPriority"
        ]
    );
    assert!(hip_destroys_stream(
        hip_operation_id("hipStreamDestroy").unwrap()
    ));
    assert_eq!(hip_stream_offset(op::hipStreamDestroy), Some(0));
}

#[test]
fn argument_offsets_of_known_launches() {
    let launch = hip_args(214).unwrap();
    assert_eq!(launch.class, HipArgsClass::Launch);
    assert_eq!(
        (
            launch.function,
            launch.grid,
            launch.block,
            launch.shared,
            launch.shared_size
        ),
        (0, 8, 20, 40, 8)
    );
    let cooperative = hip_args(211).unwrap();
    assert_eq!(
        (
            cooperative.grid,
            cooperative.block,
            cooperative.shared,
            cooperative.shared_size
        ),
        (8, 20, 40, 4)
    );
    let module = hip_args(308).unwrap();
    assert_eq!((module.function, module.grid, module.block), (0, 8, 20));
    assert_eq!(
        (module.shared, module.shared_size, module.grid_in_work_items),
        (32, 4, false)
    );
    for op in [388, 389] {
        let ext = hip_args(op).unwrap();
        assert_eq!(
            (ext.grid, ext.block, ext.shared, ext.shared_size),
            (8, 20, 32, 8)
        );
        assert!(ext.grid_in_work_items);
    }
    let config = hip_args(474).unwrap();
    assert_eq!(
        (config.params, config.function, config.grid),
        (0, 8, NO_OFFSET)
    );
    for op in [
        214, 84, 85, 211, 212, 306, 307, 308, 388, 389, 418, 419, 474, 475,
    ] {
        assert_eq!(
            hip_args(op).unwrap().class,
            HipArgsClass::Launch,
            "operation {op}"
        );
    }
}

#[test]
fn argument_offsets_of_known_copies_and_allocations() {
    let copy = hip_args(268).unwrap();
    assert_eq!(
        (copy.dst, copy.src, copy.bytes, copy.copy_kind, copy.stream),
        (0, 8, 16, 24, 32)
    );
    assert_eq!(copy.implied_copy_kind, NO_OFFSET);
    let to_host = hip_args(273).unwrap();
    assert_eq!(
        (to_host.copy_kind, to_host.implied_copy_kind),
        (NO_OFFSET, 2)
    );
    assert_eq!(hip_args(283).unwrap().bytes, 32);
    for op in 259..=287 {
        assert_eq!(
            hip_args(op).unwrap().class,
            HipArgsClass::Copy,
            "operation {op}"
        );
    }
    let fill = hip_args(293).unwrap();
    assert_eq!(
        (fill.dst, fill.value, fill.value_size, fill.bytes),
        (0, 8, 4, 16)
    );
    assert_eq!(fill.element_bytes, 1);
    let malloc = hip_args(215).unwrap();
    assert_eq!(
        (malloc.ptr, malloc.bytes, malloc.class),
        (0, 8, HipArgsClass::Alloc)
    );
    assert_eq!(hip_args(90).unwrap().ptr, 0);
    assert_eq!(hip_args(166).unwrap().graph_exec, 0);
    assert_eq!(hip_args(81).unwrap().event, 0);
    assert_eq!(hip_args(348).unwrap().event, 8);
    assert_eq!(hip_args(op::hipGetDevice), None);
    assert_eq!(hip_args(517), None);
}

/// Every offset of the short tables is an argument of the full one, and inside the union.
#[test]
fn tables_agree() {
    for op in 0..HIP_OPERATION_COUNT as u32 {
        let arguments = hip_arguments(op).unwrap();
        for argument in arguments {
            assert!(argument.offset as usize + argument.size as usize <= 88);
        }
        let at = |offset: u8| arguments.iter().find(|a| a.offset == offset);
        if let Some(offset) = hip_stream_offset(op) {
            assert_eq!(at(offset as u8).unwrap().type_id, c"P12ihipStream_t");
        }
        let Some(args) = hip_args(op) else { continue };
        assert_eq!(args.op, op);
        assert_eq!(
            hip_stream_offset(op).unwrap_or(NO_OFFSET.into()),
            args.stream.into()
        );
        for (offset, size) in [
            (args.function, 8),
            (args.params, 8),
            (args.param_count, 4),
            (args.dst, 8),
            (args.src, 8),
            (args.bytes, 8),
            (args.width, 8),
            (args.height, 8),
            (args.copy_kind, 4),
            (args.ptr, 8),
            (args.graph_exec, 8),
            (args.event, 8),
            (args.shared, args.shared_size),
            (args.value, args.value_size),
        ] {
            if offset != NO_OFFSET {
                let argument = at(offset).unwrap();
                assert_eq!(argument.size, size, "{op} {argument:?}");
            }
        }
    }
    assert_eq!(hip_arguments(214).unwrap().len(), 6);
    assert_eq!(hip_arguments(214).unwrap()[1].name, c"numBlocks");
    assert_eq!(hip_arguments(214).unwrap()[1].size, 12);
}

#[test]
fn per_thread_variants_end_in_spt() {
    for &op in &HIP_STREAM_PER_THREAD_VARIANTS {
        assert!(hip_operation_name(op).unwrap().ends_with("_spt"));
        assert!(hip_is_per_thread_variant(op));
    }
    assert!(hip_is_per_thread_variant(op::hipGraphLaunch_spt));
    assert!(!hip_is_per_thread_variant(op::hipGraphLaunch));
    assert!(!hip_is_per_thread_variant(op::hipGetProcAddress_spt));
}

#[test]
fn kinetos_list() {
    assert_eq!(
        KINETO_EXCLUDED_OPERATIONS,
        [29, 41, 102, 103, 105, 109, 303, 320, 326, 327]
    );
}

#[test]
fn compiler_operations() {
    assert_eq!(HIP_COMPILER_OPERATION_NAMES.len(), 9);
    assert_eq!(
        hip_compiler_operation_name(0),
        Some("__hipPopCallConfiguration")
    );
    assert_eq!(
        hip_compiler_operation_name(8),
        Some("__hipUnregisterFatBinary")
    );
    assert_eq!(hip_compiler_operation_name(9), None);
}

/// The facts sheet's rows, by argument name.
#[test]
fn argument_offsets_by_name() {
    type Expected = (&'static CStr, u8, u8);
    let rows: &[(u32, &[Expected])] = &[
        (
            84,
            &[
                (c"function_address", 0, 8),
                (c"numBlocks", 8, 12),
                (c"dimBlocks", 20, 12),
                (c"args", 32, 8),
                (c"sharedMemBytes", 40, 8),
                (c"stream", 48, 8),
                (c"startEvent", 56, 8),
                (c"stopEvent", 64, 8),
                (c"flags", 72, 4),
            ],
        ),
        (
            211,
            &[
                (c"func", 0, 8),
                (c"gridDim", 8, 12),
                (c"blockDimX", 20, 12),
                (c"kernelParams", 32, 8),
            ],
        ),
        (
            308,
            &[
                (c"gridDimZ", 16, 4),
                (c"blockDimZ", 28, 4),
                (c"sharedMemBytes", 32, 4),
                (c"kernelParams", 48, 8),
                (c"extra", 56, 8),
            ],
        ),
        (
            388,
            &[
                (c"localWorkSizeX", 20, 4),
                (c"startEvent", 64, 8),
                (c"flags", 80, 4),
            ],
        ),
        (389, &[(c"globalWorkSizeX", 8, 4), (c"startEvent", 64, 8)]),
        (474, &[(c"config", 0, 8), (c"fPtr", 8, 8), (c"args", 16, 8)]),
        (
            287,
            &[
                (c"dst", 0, 8),
                (c"src", 8, 8),
                (c"sizeBytes", 16, 8),
                (c"kind", 24, 4),
            ],
        ),
        (215, &[(c"ptr", 0, 8), (c"size", 8, 8)]),
    ];
    for (op, arguments) in rows {
        for (name, offset, size) in *arguments {
            let argument = hip_arguments(*op)
                .unwrap()
                .iter()
                .find(|a| a.name == *name)
                .unwrap();
            assert_eq!(
                (argument.offset, argument.size),
                (*offset, *size),
                "{op} {name:?}"
            );
        }
    }
}
