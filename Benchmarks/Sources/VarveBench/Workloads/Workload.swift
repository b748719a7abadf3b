/// The rows that can be asked for, named and defined as in db_bench where it has them.
///
/// `num` operations are shared out over the threads, so that a row is the same work whatever
/// `--threads` says (db_bench gives each thread `num`).
enum Workload: String, CaseIterable, Codable {
  /// Puts in ascending order.
  case fillseq
  /// Puts of keys drawn from `0..<num`: some twice, about 37 % of the numbers never.
  case fillrandom
  /// The same with another sequence, over what is there.
  case overwrite
  /// Puts of 100 keys, over and over.
  case overwritehot
  /// 100 ascending runs, one put of each in turn.
  case fillclustered
  /// Synced puts; `num / 1000` of them, but at least 300 where `num` allows.
  case fillsync
  /// Puts of which 1 in 100 is synced; `num / 10` of them.
  case fillmixed
  case readrandom
  /// Gets of keys that lie between those that are there.
  case readmissing
  case readseq
  case readreverse
  /// A new cursor, a seek and ten steps.
  case seekrandom
  /// `--threads` readers, and one writer beside them that overwrites keys of `fillrandom`.
  case readwhilewriting
  case deleterandom
  /// A queue of at most 1,000: puts at the tail, deletes at the head, compaction off where an engine can, and a
  /// snapshot that is taken after a tenth and held. Every hundredth put a cursor looks for the first key: the
  /// latency is that of its seek alone, with its making.
  case queue
  case compact
  case waitforcompaction
  /// `fillrandom` and `fillseq` into a memtable that holds them all: log and memtable alone.
  case putalone, putaloneseq
  /// A raw append and `fdatasync` of one record at a time on a preallocated file: the floor of `fillsync`.
  case syncloop
  /// Opening a database of many tables, of a deep level 0; and tables with range tombstones of their own. `num` tables
  /// (20,000, 3,000 and 30,000).
  case opentables, levelzero, coveredtables
  /// 1, 16, 64 and 128 threads that get, get 100 keys at once, use a value for a millisecond, or move a cursor over 50 keys, without a
  /// pause, each beside a writer of `num` values of 1,000 bytes (4,200,000): what memory that takes.
  case memoryunderreaders
  /// One batch of `num` range deletes (400,000) beside a writer of single puts, whose latencies are the row's.
  case rangebatch
  /// Puts into indexed batches before their commits; batches of one put in four families, with their commits; and
  /// the undoing of one put among many.
  case indexedput, indexedput1x4, indexedrollback
  /// Sorted entries of 60 bytes that are put whole into an empty family.
  case ingest
  case ycsba, ycsbb, ycsbc, ycsbd, ycsbe, ycsbf
  /// Inserts of books by random keys: many a transaction, one a transaction, and one through the asynchronous API.
  case objectinsert, objectinsertone, objectinsertasync
  /// The last of them from `--tasks` tasks at once.
  case objectinserttasks
  /// Books by random id: decoded, as the bytes that they are stored as, and these by 100 a call.
  case objectread, objectreadraw, objectreadbatch
  /// The first of them through the asynchronous API, one a call.
  case objectreadasync
  /// The first of them from 16 threads at once, each with a session of its own. Varve alone.
  case objectreadthreads
  /// All books in the order of their ids, decoded.
  case objectscan
  /// Books by a unique index; by one that has the rows beside its keys, of Varve alone.
  case indexlookup, indexlookupdirect
  /// All entries of an index in its order: their values, and their books.
  case indexrange, indexrangedecoded
  /// 1,000 books from a date on by the index of dates, over and over; by one that has the rows, of Varve alone.
  case fetch1000, fetch1000direct
  /// How many books there are by the index of dates, and giving two indexes to the books that are there.
  case indexcount, indexbuild

  /// Rows with two edges each, many a transaction.
  case edgeinsert
  /// One row is removed, and with it all rows that belong to it, of `--shape`, in one transaction.
  case edgecascade
  /// Rows that lead to one, which goes with the last of them, removed one a transaction.
  case edgehub

  /// Tasks are enqueued, many a transaction; one a transaction.
  case taskenqueue, taskenqueueone
  /// Tasks that are there are run by 8 workers: of one queue, and one after the other in one serial queue, or in `--queues`.
  case taskrun, taskserial
  /// From the commit of a task to the start of its handler.
  case taskstart
  /// From opening to the first start of a task, among those that wait.
  case taskreopen
  /// Tasks enqueued one a transaction, from `--tasks` Swift tasks at once.
  case taskenqueuetasks
  /// How late handlers begin whose tasks are due 10,000 a second.
  case tasktimers
  /// Memory of a scheduler that was opened on tasks that wait in a paused queue.
  case taskwaiting
  /// All tasks are due at one time: how long writers of other rows wait while they become ready.
  case taskdue
  /// One queue without compaction, while a snapshot is open: the time of each 1,000 tasks.
  case taskpinned
  /// How much later than its deadline `run(until:)` returns, with handlers that check for cancellation.
  case taskuntil

  /// A first row of these starts from an empty database; of the object rows, each.
  var startsEmpty: Bool { rawValue.hasPrefix("fill") || (isObject && puts) }

  /// A row of the object floor.
  var isObject: Bool { rawValue.hasPrefix("object") || isOfIndexes || isOfEdges || isOfTasks }

  /// A row of relationships.
  var isOfEdges: Bool { self == .edgeinsert || self == .edgecascade || self == .edgehub }

  /// A row of tasks.
  var isOfTasks: Bool { rawValue.hasPrefix("task") }

  /// Rows of tasks of Varve alone.
  var isOfVarvesTasks: Bool {
    switch self {
    case .taskenqueuetasks, .tasktimers, .taskwaiting, .taskdue, .taskpinned, .taskuntil: true
    default: false
    }
  }

  /// A row that fills a database of its own before it is measured.
  var isOfIndexes: Bool {
    switch self {
    case .indexlookup, .indexlookupdirect, .indexrange, .indexrangedecoded, .fetch1000, .fetch1000direct, .indexcount,
      .indexbuild:
      true
    default: false
    }
  }

  /// A row of indexes that have the rows.
  var isDirect: Bool { self == .indexlookupdirect || self == .fetch1000direct }

  /// Whether object rows can be beside it in a list.
  var goesWithObjects: Bool { isObject || self == .waitforcompaction || self == .compact }

  /// Rows of Varve alone whose operations are tables (`EngineRun+Tables`).
  var isOfTables: Bool { self == .opentables || self == .levelzero || self == .coveredtables }

  /// These run in a directory of their own, which is gone afterwards.
  var isAlone: Bool {
    holdsAllInMemory || self == .queue || self == .memoryunderreaders || isOfTables || self == .rangebatch
      || isOfBatches
  }

  /// Rows of Varve alone (`EngineRun+Batches`).
  var isOfBatches: Bool {
    self == .indexedput || self == .indexedput1x4 || self == .indexedrollback || self == .ingest
  }

  /// With a memtable that holds all they put.
  var holdsAllInMemory: Bool { self == .putalone || self == .putaloneseq }

  var isYCSB: Bool { rawValue.hasPrefix("ycsb") }

  var keyOrder: KeySequence.Order {
    switch self {
    case .fillseq, .putaloneseq, .queue: .ascending
    case .fillclustered: .clustered(groups: 100)
    default: .uniform
    }
  }

  /// Whether all that the row does is to put.
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
