/// The workloads that can be run, named and defined as in db_bench if it has them.
///
/// `num` operations are divided among the threads, so that a row is the same work for any `--threads` (db_bench gives
/// each thread `num`).
enum Workload: String, CaseIterable, Codable {
  /// Puts in ascending order.
  case fillseq
  /// Puts of keys drawn from `0..<num`: some numbers repeatedly, about 37 % of them never.
  case fillrandom
  /// Puts as in `fillrandom` with another sequence, over the existing entries.
  case overwrite
  /// Repeated puts of 100 keys.
  case overwritehot
  /// 100 ascending runs, one put of each in turn.
  case fillclustered
  /// Synced puts: `num / 1000` of them, but at least 300 if `num` allows.
  case fillsync
  /// Puts of which 1 in 100 is synced; `num / 10` of them.
  case fillmixed
  case readrandom
  /// Gets of keys that are between existing keys.
  case readmissing
  case readseq
  case readreverse
  /// A new cursor, a seek and ten steps.
  case seekrandom
  /// `--threads` readers, and one concurrent writer that overwrites keys of `fillrandom`.
  case readwhilewriting
  case deleterandom
  /// A queue of at most 1,000 entries: puts at the tail, deletes at the head, compaction off if an engine supports it,
  /// and a snapshot that is taken after a tenth and retained. At every hundredth put a cursor seeks the first key: the
  /// latency is that of the seek alone, including the creation of the cursor.
  case queue
  case compact
  case waitforcompaction
  /// `fillrandom` and `fillseq` into a memtable that holds all entries, so that only log and memtable are used.
  case putalone, putaloneseq
  /// A raw append and `fdatasync` of one record at a time on a preallocated file: the minimum cost of `fillsync`.
  case syncloop
  /// Opening a database of many tables, and of a deep level 0; and tables with their own range tombstones. `num` is the
  /// number of tables (20,000, 3,000 and 30,000).
  case opentables, levelzero, coveredtables
  /// The memory used by 1, 16, 64 and 128 threads that get, get 100 keys at once, use a value for a millisecond, or
  /// move a cursor over 50 keys, without a pause, each concurrently with a writer of `num` values of 1,000 bytes
  /// (4,200,000).
  case memoryunderreaders
  /// The first and the last key of a family of `num` keys (2,000,000) of which all but ten in the middle were deleted,
  /// repeatedly, in a writer's snapshots, a read-only engine and a follower, for Varve only (`EngineRun+Ends`).
  case endsread
  /// The time until the space of `num` deleted rows of 8 KiB is returned without further writes, for Varve only
  /// (`EngineRun+Idle`).
  case idlespace
  /// The growth of the resident size during a put, a flush and a get of a value of 64 MiB, a batch of as many bytes,
  /// and the fold of as many bytes of operands, for Varve only (`EngineRun+Large`).
  case largepeak
  /// One batch of `num` range deletes (400,000) concurrently with a writer of single puts, whose latencies are the
  /// row's.
  case rangebatch
  /// Puts into indexed batches before their commits; batches of one put in four families, with their commits; and the
  /// rollback of one put among many.
  case indexedput, indexedput1x4, indexedrollback
  /// Sorted entries of 60 bytes that are ingested into an empty family.
  case ingest
  /// The opening of a follower and of a read-only engine while another process writes, with a log of `num` entries
  /// (12,000,000); and the step of a follower that lags by a twelfth of that. They are for Varve only.
  case followopen, followcatchup
  case ycsba, ycsbb, ycsbc, ycsbd, ycsbe, ycsbf
  /// Inserts of books by random keys: many per transaction, one per transaction, and one through the asynchronous API.
  case objectinsert, objectinsertone, objectinsertasync
  /// `objectinsertasync` from `--tasks` tasks at once.
  case objectinserttasks
  /// Reads of books by random id: decoded; as their stored bytes; and as their stored bytes by 100 per call.
  case objectread, objectreadraw, objectreadbatch
  /// `objectread` through the asynchronous API, one per call.
  case objectreadasync
  /// `objectread` from 16 threads at once, each with its own session, for Varve only.
  case objectreadthreads
  /// All books in the order of their ids, decoded.
  case objectscan
  /// Books by a unique index; and by a direct one that contains the rows, for Varve only.
  case indexlookup, indexlookupdirect
  /// All entries of an index in its order: their values, and their books.
  case indexrange, indexrangedecoded
  /// Repeated reads of 1,000 books from a date on by the index of dates; and by a direct one, for Varve only.
  case fetch1000, fetch1000direct
  /// The number of books, counted by the index of dates; and the addition of two indexes to existing books.
  case indexcount, indexbuild

  /// Inserts of rows with two edges each, many per transaction.
  case edgeinsert
  /// The removal of one row and all rows that belong to it, of `--shape`, in one transaction.
  case edgecascade
  /// The removal of rows that lead to one, which is removed with the last of them, one per transaction.
  case edgehub

  /// Inserts of books into an order by year and title, in transactions of 1,000, 10, 100,000 rows and one row.
  case viewinsert
  /// Updates of books that move, and that stay although the book has changed.
  case viewupdate
  /// The key at an offset, the offset of a key, and counts of a group and of a range; and the first of them.
  case viewat
  /// All keys in order.
  case viewscan
  /// The build of the order over existing books: by tables, and while another definition is in use.
  case viewbuild
  /// The steps of lists that follow commits.
  case viewchanges
  /// The memory of the counts, and the bytes of the order in tables.
  case viewmemory, viewdisk

  /// Enqueueing of tasks, many per transaction; and one per transaction.
  case taskenqueue, taskenqueueone
  /// Waiting tasks are run by 8 workers: those of one queue; and one after the other in one serial queue, or in
  /// `--queues`.
  case taskrun, taskserial
  /// The time from the commit of a task to the start of its handler.
  case taskstart
  /// The time from the opening to the start of the first of the tasks that were running when the process was killed,
  /// among those that wait.
  case taskreopen
  /// Enqueueing of tasks, one per transaction, from `--tasks` Swift tasks at once.
  case taskenqueuetasks
  /// Enqueueing of tasks, one per durable commit, from `--tasks` Swift tasks at once, and alternately from one.
  case taskgroup
  /// The delay of handlers whose tasks are due at 10,000 per second.
  case tasktimers
  /// The memory of a scheduler that was opened on tasks that wait in a paused queue.
  case taskwaiting
  /// The time that writers of other rows wait while tasks that are all due at one time become ready.
  case taskdue
  /// The time of each 1,000 tasks of one queue without compaction, while a snapshot is open.
  case taskpinned
  /// The time after its deadline at which `run(until:)` returns, with handlers that check for cancellation.
  case taskuntil
  /// The time from the commit of a task of one limit key to the start of its handler, while another key of its serial
  /// queue always has tasks.
  case turns

  /// Whether the workload starts from an empty database if it is the first row; object workloads always do.
  var startsEmpty: Bool { rawValue.hasPrefix("fill") || (isObject && puts) }

  /// Whether the workload uses the object database.
  var isObject: Bool { rawValue.hasPrefix("object") || isOfIndexes || isOfEdges || isOfTasks || isOfViews }

  /// Whether the workload is one of views and counted indexes.
  var isOfViews: Bool { rawValue.hasPrefix("view") }

  /// Whether the workload is one of relationships.
  var isOfEdges: Bool { self == .edgeinsert || self == .edgecascade || self == .edgehub }

  /// Whether the workload is one of tasks.
  var isOfTasks: Bool { rawValue.hasPrefix("task") || self == .turns }

  /// Whether the workload is one of tasks for Varve only.
  var isOfVarvesTasks: Bool {
    switch self {
    case .taskenqueuetasks, .taskgroup, .tasktimers, .taskwaiting, .taskdue, .taskpinned, .taskuntil, .turns: true
    default: false
    }
  }

  /// Whether the workload fills its own database before it is measured.
  var isOfIndexes: Bool {
    switch self {
    case .indexlookup, .indexlookupdirect, .indexrange, .indexrangedecoded, .fetch1000, .fetch1000direct, .indexcount,
      .indexbuild:
      true
    default: false
    }
  }

  /// Whether the workload uses direct indexes, which contain the rows.
  var isDirect: Bool { self == .indexlookupdirect || self == .fetch1000direct }

  /// Whether object workloads can be in the same list.
  var isAllowedWithObjects: Bool { isObject || self == .waitforcompaction || self == .compact }

  /// Whether the workload is for Varve only and its operations are tables (`EngineRun+Tables`).
  var isOfTables: Bool { self == .opentables || self == .levelzero || self == .coveredtables }

  /// Whether the workload runs in its own directory, which is removed afterwards.
  var isAlone: Bool {
    holdsAllInMemory || self == .queue || self == .memoryunderreaders || isOfTables || self == .rangebatch
      || self == .endsread || self == .idlespace || self == .largepeak || isOfBatches || follows
  }

  /// Whether the workload is one of batches, for Varve only (`EngineRun+Batches`).
  var isOfBatches: Bool {
    self == .indexedput || self == .indexedput1x4 || self == .indexedrollback || self == .ingest
  }

  /// Whether the workload is one of a reader while another process writes, for Varve only (`EngineRun+Follow`).
  var follows: Bool { self == .followopen || self == .followcatchup }

  /// Whether the memtable holds all entries that the workload puts.
  var holdsAllInMemory: Bool { self == .putalone || self == .putaloneseq }

  var isYCSB: Bool { rawValue.hasPrefix("ycsb") }

  var keyOrder: KeySequence.Order {
    switch self {
    case .fillseq, .putaloneseq, .queue: .ascending
    case .fillclustered: .clustered(groups: 100)
    default: .uniform
    }
  }

  /// Whether the workload only puts.
  var puts: Bool {
    switch self {
    case .fillseq, .fillrandom, .overwrite, .overwritehot, .fillclustered, .fillsync, .fillmixed, .putalone,
      .putaloneseq, .queue, .objectinsert, .objectinsertone, .objectinsertasync, .objectinserttasks:
      true
    default: false
    }
  }

  func keyRange(_ settings: RunSettings) -> Int {
    self == .overwritehot ? min(100, settings.num) : settings.num
  }

  func operationCount(_ settings: RunSettings) -> Int {
    switch self {
    case .fillsync, .syncloop: max(settings.num / 1000, min(settings.num, 300))
    case .fillmixed: max(settings.num / 10, min(settings.num, 1000))
    case .compact, .waitforcompaction: 1
    case .putalone, .putaloneseq: settings.aloneNum ?? settings.num
    case _ where puts || self == .deleterandom: settings.num
    default: settings.reads ?? settings.num
    }
  }

  func isSynced(_ operation: Int, _ settings: RunSettings) -> Bool {
    switch self {
    case .fillsync: true
    case .fillmixed: operation % 100 == 99
    default: settings.sync
    }
  }
}
