/// Every value that the engine derives from its options, or that a user might expect as an option.
extension Engine {
  /// The effective values of the options, each with its reason.
  public var derivedOptions: [DerivedOption] {
    core.checkOpen()
    return core.derivedOptions
  }
}

extension EngineCore {
  /// The implementation of `Engine.derivedOptions`. Values that are computed have their reasons where they are
  /// computed: in the memory plan, and in the options of the log's writer, of the picker and of the write controller.
  var derivedOptions: [DerivedOption] {
    let plan = background.plan
    return plan.derived(from: options, threadCount: executor.parallelism) + memoryOptions + logOptions + tableOptions
      + backgroundOptions + plan.controllerOptions.derived + observationOptions
  }

  private var memoryOptions: [DerivedOption] {
    [
      .init(
        .memory, "raisesDescriptorLimit", options.raisesDescriptorLimit,
        "as the options say; the process may open \(DescriptorLimit.current) files")
    ]
  }

  private var logOptions: [DerivedOption] {
    pipeline.log.options.derived + [
      .init(
        .log, "usesMapping", pipeline.log.usesMapping,
        pipeline.log.usesMapping
          ? "the file system overwrites in place, as its name and a probe say: records are stored through a mapping"
          : "the file system is not known to overwrite in place: records are written by pwrite"),
      .init(.log, "durability", "\(options.durability)", "as the options say; of commits that don't say themselves"),
    ]
  }

  private var tableOptions: [DerivedOption] {
    [
      .init(.tables, "compression", options.compression.rawValue, "as the options say, unless a family does"),
      .init(
        .tables, "lastLevelCompression", (options.lastLevelCompression ?? options.compression).rawValue,
        DerivedOption.reason(options.lastLevelCompression, "as the other levels")),
      .init(
        .tables, "mergeOperators",
        options.mergeOperators.isEmpty ? "none" : options.mergeOperators.map(\.name).description,
        "as the options say, beside those that every engine knows"),
      .init(
        .tables, "acceptsUnknownMergeOperators", options.acceptsUnknownMergeOperators,
        "only for tools that copy the families of a program"),
      .init(
        .tables, "defaultFamilyOptions", "\(options.defaultFamilyOptions)",
        "as the options say; what the default family of a new database gets"),
      .init(.tables, "blockSize", options.blockSize, "as the options say; before compression"),
      .init(.tables, "bloomBitsPerKey", options.bloomBitsPerKey, "as the options say; 10 let one in a hundred pass"),
    ]
  }

  private var backgroundOptions: [DerivedOption] {
    background.compactions.picker.options.derived + [
      .init(
        .background, "backgroundThreads", executor.parallelism,
        DerivedOption.reason(options.backgroundThreads, "one a core, 2 to 16")
          + "; two more wait for flushes and the log's segments"),
      .init(
        .background, "compactsInBackground", options.compactsInBackground,
        "as the options say; without, only Engine.compact does"),
      .init(
        .background, "deadRunMinimum", options.deadRunMinimum,
        "as the options say; a cursor that passed so many dead keys has a range tombstone put over them, 0 for never"),
      .init(
        .background, "reserveDatabaseMinimum", options.reserveDatabaseMinimum,
        "a constant: a database of that size keeps a file RESERVE for a full disk"),
    ]
  }

  private var observationOptions: [DerivedOption] {
    [
      .init(
        .observation, "publishesStatistics", watch.publishes,
        watch.publishes
          ? "statistics go to STATS about once a second while something changes"
          : "not asked for, read-only, or files that other processes don't see"),
      .init(
        .observation, "takesRequests", options.takesRequests && !options.readOnly,
        "as the options say, and never read-only: other processes of the same user may request a checkpoint"),
      .init(
        .observation, "backupFolders",
        options.backupFolders.isEmpty ? "none" : options.backupFolders.joined(separator: ", "),
        "as the options say: folders for requested checkpoints, besides the one that contains the database"),
      .init(
        .observation, "longLivedNanoseconds", EngineWatch.longLivedNanoseconds,
        "a constant: listeners are notified of snapshots and cursors that are older"),
      .init(
        .observation, "samplePeriod", OperationLatencies.samplePeriod, "a constant: one operation in so many is timed"),
      .init(.observation, "eventCapacity", EventQueue.capacity, "a constant: events that wait for slow listeners"),
      .init(
        .observation, "callThreadCountMaximum", Limits.callThreadCountMaximum,
        "a constant: threads for calls of tasks, started as they are needed; \(callThreads.count) so far"),
    ]
  }
}
