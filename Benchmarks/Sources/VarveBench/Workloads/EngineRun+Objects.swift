import Foundation
import Histogram

/// The object workloads of one engine in one round.
///
/// A workload of inserts starts from an empty database at any position in the list, so that each inserts new books; the
/// others use the database that the last one left.
extension EngineRun {
  func executeObjects<Engine: ObjectEngine>(_ type: Engine.Type) throws {
    try prepareDirectory()
    var engine: Engine?
    var bookCount: Int?
    var filledWith: BookIndexes?
    for step in settings.steps {
      if step.workload == .objectreadthreads || step.workload.isDirect, !Engine.hasSessionsForThreads { continue }
      let settings = settings.applying(step)
      let fills =
        step.workload.isOfIndexes && (filledWith != settings.engineSettings.indexes || step.workload == .indexbuild)
      if step.workload.startsEmpty || fills {
        try engine?.close()
        engine = nil
        try? FileManager.default.removeItem(atPath: enginePath)
        bookCount = 0
      }
      let open = try engine ?? openEngine(type, path: enginePath, settings.engineSettings)
      engine = open
      if fills { bookCount = try fill(open, settings) }
      filledWith = step.workload.isOfIndexes && step.workload != .indexbuild ? settings.engineSettings.indexes : nil
      try report(objectRow(open, step.workload, settings, bookCount: &bookCount))
    }
    try engine?.close()
  }

  /// Inserts the books that an index workload needs, unmeasured.
  private func fill<Engine: ObjectEngine>(_ engine: Engine, _ settings: RunSettings) throws -> Int {
    let session = try engine.makeSession(sync: false)
    defer { session.close() }
    let books = BookSource(settings)
    var number: UInt64 = 0
    while number < UInt64(settings.num) {
      try session.insert(min(1_000, settings.num - Int(number))) {
        defer { number &+= 1 }
        return books.book(number)
      }
    }
    _ = try engine.waitForCompaction()
    return settings.num
  }

  private func objectRow<Engine: ObjectEngine>(
    _ engine: Engine, _ workload: Workload, _ settings: RunSettings, bookCount: inout Int?
  ) throws -> Row {
    let session = try engine.makeSession(sync: settings.sync)
    defer { session.close() }
    let countBefore = try bookCount ?? session.count()
    guard workload.puts || countBefore > 0 else {
      throw EngineFailure("\(workload.rawValue): there is nothing to read; begin with objectinsert")
    }
    var countAfter = countBefore
    let row = try measured(engine, workload, settings, path: enginePath) {
      UInt64(countAfter * Book.byteCount)
    } work: { row in
      if workload == .objectreadthreads {
        let workers = try ObjectThreads.run(engine, settings, bookCount: countBefore)
        collect(workers, workload, into: &row)
      } else if workload == .indexbuild {
        try buildIndexes(engine, countBefore, into: &row)
      } else {
        let worker = ObjectWorker(session, settings, workload, bookCount: countBefore)
        try worker.run()
        collect([worker], workload, into: &row)
      }
      if workload.puts { countAfter += row.ops }
    }
    bookCount = countAfter
    if workload.isObject { try check(row, session, workload, settings, countAfter) }
    return row
  }

  /// Measures the build of indexes. The row's operations are the books.
  private func buildIndexes<Engine: ObjectEngine>(_ engine: Engine, _ count: Int, into row: inout Row) throws {
    let begin = Clock.now()
    try engine.buildIndexes()
    row.seconds = Double(Clock.now() - begin) / 1e9
    row.ops = count
  }

  private func collect<Session: ObjectSession>(
    _ workers: [ObjectWorker<Session>], _ workload: Workload, into row: inout Row
  ) {
    let recorders = workers.flatMap(\.recorders)
    row.threads = recorders.count
    var histogram = recorders[0].histogram
    for recorder in recorders.dropFirst() { histogram.add(recorder.histogram) }
    row.take(histogram)
    row.ops = recorders.reduce(0) { $0 + $1.operations }
    row.seconds = Double((workers.map(\.end).max() ?? 0) - (workers.map(\.start).min() ?? 0)) / 1e9
    let seconds = recorders.map(\.perSecond.count).min() ?? 0
    row.perSecond = (0..<seconds).map { second in recorders.reduce(0) { $0 + $1.perSecond[second] } }
    if workload.puts {
      row.userBytes = UInt64(row.ops * Book.byteCount)
    } else {
      row.found = workers.reduce(0) { $0 + $1.found }
    }
  }

  /// Checks that all books were found. Every requested id was inserted, so an engine that finds fewer has lost some.
  private func check<Session: ObjectSession>(
    _ row: Row, _ session: Session, _ workload: Workload, _ settings: RunSettings, _ bookCount: Int
  ) throws {
    if let found = row.found, found != row.ops {
      throw EngineFailure("\(workload.rawValue) found \(found) of \(row.ops) books")
    }
    guard workload.puts else { return }
    let count = try session.count()
    guard count == bookCount else { throw EngineFailure("\(count) of \(bookCount) books are there") }
    try ObjectWorker(session, settings, workload, bookCount: bookCount).checkSample()
  }
}
