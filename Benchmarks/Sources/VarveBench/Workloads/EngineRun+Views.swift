import Foundation
import Histogram

/// The view workloads of one engine in one round. Each begins with an empty database for each form of the order.
///
/// A workload has several rows, which `Row.variant` distinguishes. A row that is compared with the same operation
/// without an order has the difference (`Row.microsBeyond`).
extension EngineRun {
  func executeViews<Engine: ShelfEngine>(_ type: Engine.Type) throws {
    try prepareDirectory()
    for step in settings.steps where step.workload.isOfViews {
      switch step.workload {
      case .viewinsert: try insertIntoShelves(type)
      case .viewupdate: try updateShelves(type)
      case .viewat: try lookIntoShelves(type)
      case .viewscan: try scanShelves(type)
      case .viewbuild: try buildShelves(type)
      case .viewchanges: try followShelves(type)
      case .viewmemory: try measureMemoryOfShelves(type)
      default: try measureDiskOfShelves(type)
      }
    }
  }

  var shelfSource: ShelfSource { ShelfSource(settings) }

  // MARK: - Databases

  /// Runs `body` with an empty database, which is closed afterwards.
  func withShelf<Engine: ShelfEngine, Result>(
    _ type: Engine.Type, _ form: ShelfForm, cacheBytes: Int? = nil, _ body: (Engine) throws -> Result
  ) throws -> Result {
    try? FileManager.default.removeItem(atPath: enginePath)
    var options = settings.engineSettings
    options.shelf = form
    if let cacheBytes { options.cacheBytes = cacheBytes }
    let engine = try openEngine(type, path: enginePath, options)
    let result = try body(engine)
    try engine.close()
    return result
  }

  /// Inserts all books, unmeasured, and waits until the database is at rest.
  func fillShelf<Engine: ShelfEngine>(_ engine: Engine) throws {
    try insertIntoShelf(engine, 1_000, nil)
    _ = try engine.waitForCompaction()
  }

  /// Inserts all books in transactions of a size.
  private func insertIntoShelf<Engine: ShelfEngine>(_ engine: Engine, _ size: Int, _ recorder: Recorder?) throws {
    let source = shelfSource
    var number = 0
    while number < settings.num {
      let count = min(size, settings.num - number)
      try engine.insert(count) {
        defer { number += 1 }
        return source.book(number)
      }
      _ = recorder?.finish(count)
    }
  }

  // MARK: - Rows

  /// Returns the row of a form, whose operations `work` records.
  func shelfRow<Engine: ShelfEngine>(
    _ engine: Engine, _ workload: Workload, _ form: ShelfForm, _ variant: String, duration: Double = 0,
    _ work: (Recorder) throws -> Void
  ) throws -> Row {
    var row = try measured(engine, workload, settings, path: enginePath) {
      nil
    } work: { row in
      let recorder = Recorder(recordsLatency: settings.latency, duration: duration)
      recorder.begin()
      try work(recorder)
      recorder.stop()
      row.take(recorder.histogram)
      row.ops = recorder.operations
      row.seconds = Double(recorder.end - recorder.start) / 1e9
    }
    row.variant = "\(form), \(variant)"
    return row
  }

  /// Adds the goal of Varve's row, if it has one, and reports the row.
  func reportShelf(_ row: Row, plain: Row? = nil, goal: RowGoal? = nil) throws {
    var row = row
    if let plain { row.microsBeyond = row.microsPerOp - plain.microsPerOp }
    if settings.engine == .varve || settings.engine == .varvePwrite { row.goal = goal }
    try report(row)
  }

  // MARK: - Inserts

  /// The rows of a transaction of `viewinsert`, with the goal of rows per second.
  private static var insertSizes: [(size: Int, goal: Double)] {
    [(1_000, 150_000), (10, 120_000), (100_000, 110_000), (1, 80_000)]
  }

  private func insertIntoShelves<Engine: ShelfEngine>(_ type: Engine.Type) throws {
    for (size, goal) in Self.insertSizes {
      var plain: Row?
      for form in type.forms(.viewinsert) where form != .filtered || size == 1_000 {
        let row = try withShelf(type, form) { engine in
          let row = try shelfRow(engine, .viewinsert, form, "\(size) a transaction") {
            try insertIntoShelf(engine, size, $0)
          }
          let count = try engine.countRows()
          guard count == settings.num else { throw EngineFailure("\(count) of \(settings.num) books are there") }
          return row
        }
        if form == .rows { plain = row }
        let limit: RowGoal? =
          switch form {
          case .rows: nil
          case .filtered: RowGoal(.microsBeyond, 1.2)
          case .view, .index: RowGoal(.rate, goal)
          }
        try reportShelf(row, plain: form == .rows ? nil : plain, goal: limit)
      }
    }
  }

  // MARK: - Updates

  /// The updates of `viewupdate`.
  private enum ShelfUpdate: String, CaseIterable {
    /// Books at random stay where they are, and their positions were written long before.
    case cold
    /// Books at random get another position.
    case moves
    /// Books stay where they are, and their positions were written a moment before.
    case stays

    var goal: Double {
      switch self {
      case .moves: 8
      case .cold: 5
      case .stays: 2
      }
    }
  }

  private func updateShelves<Engine: ShelfEngine>(_ type: Engine.Type) throws {
    var plain: [ShelfUpdate: Row] = [:]
    for form in type.forms(.viewupdate) {
      try withShelf(type, form) { engine in
        try fillShelf(engine)
        for update in ShelfUpdate.allCases {
          _ = try engine.waitForCompaction()
          let row = try self.row(of: update, engine, form)
          if form == .rows { plain[update] = row }
          try reportShelf(
            row, plain: form == .rows ? nil : plain[update],
            goal: form == .rows ? nil : RowGoal(.microsBeyond, update.goal))
        }
        let count = try engine.countRows()
        guard count == settings.num else { throw EngineFailure("\(count) of \(settings.num) books are there") }
      }
    }
  }

  private func row<Engine: ShelfEngine>(
    of update: ShelfUpdate, _ engine: Engine, _ form: ShelfForm
  ) throws -> Row {
    let (source, num) = (shelfSource, settings.num)
    let size = min(settings.rowsPerTransaction, num)
    let rounds = max(min(num, 200_000) / size, 1)
    var random = SplitMix64(seed: settings.seed, stream: update.rawValue, thread: 0)
    if update == .stays {
      var number = 0
      try engine.update(size) {
        defer { number += 1 }
        return source.moved(number, num)
      }
    }
    return try shelfRow(engine, .viewupdate, form, update.rawValue) { recorder in
      for round in 0..<rounds {
        var number = 0
        try engine.update(size) {
          defer { number += 1 }
          switch update {
          case .moves: return source.moved(Int(random.next(below: UInt64(num))), round)
          case .cold: return source.repriced(Int(random.next(below: UInt64(num))), round)
          case .stays:
            var book = source.moved(number, num)
            book.price += Double(round + 1)
            return book
          }
        }
        _ = recorder.finish(size)
      }
    }
  }
}
