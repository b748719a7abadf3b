import Foundation

/// The view workloads that read, build, and measure memory and disk.
extension EngineRun {
  // MARK: - Offsets and counts

  /// The seconds after which a row of `viewat` ends, because engines without counts step over entries.
  private static let lookMaximum = 5.0

  private static func goal(_ read: ShelfRead) -> RowGoal? {
    switch read {
    case .entry: RowGoal(.micros, 10)
    case .offset, .group, .range: RowGoal(.micros, 15)
    case .rownumber: nil
    }
  }

  func lookIntoShelves<Engine: ShelfEngine>(_ type: Engine.Type) throws {
    for form in type.forms(.viewat) {
      try withShelf(type, form) { engine in
        try fillShelf(engine)
        let counts = try ShelfYears.all.map { try engine.count(of: $0) }
        guard counts.reduce(0, +) == settings.num else { throw EngineFailure("the years have \(counts) books") }
        for read in Engine.reads {
          let row = try shelfRow(engine, .viewat, form, read.rawValue, duration: Self.lookMaximum) {
            try look(read, engine, counts, $0)
          }
          try reportShelf(row, goal: Self.goal(read))
        }
        try reportFirstUse(engine, form)
      }
    }
  }

  /// Looks at random, and checks each 64th answer by another question.
  private func look<Engine: ShelfEngine>(
    _ read: ShelfRead, _ engine: Engine, _ counts: [Int], _ recorder: Recorder
  ) throws {
    let source = shelfSource
    var random = SplitMix64(seed: settings.seed, stream: "viewat", thread: 0)
    for round in 0..<(settings.reads ?? min(settings.num, 100_000)) {
      let book = source.book(Int(random.next(below: UInt64(settings.num))))
      let count = counts[book.year - ShelfYears.all.lowerBound]
      var isRight = true
      switch read {
      case .entry:
        let offset = Int(random.next(below: UInt64(count)))
        let id = try engine.id(at: offset, of: book.year)
        isRight = id != nil
      case .offset, .rownumber:
        let offset = try engine.offset(of: book, byNumbering: read == .rownumber)
        isRight = offset.map { $0 < count } ?? false
        if round % 64 == 0, let offset { isRight = try engine.id(at: offset, of: book.year) == book.id }
      case .group: isRight = try engine.count(of: book.year) == count
      case .range: isRight = (1...count).contains(try engine.count(of: book.year, from: book.title))
      }
      guard isRight else { throw EngineFailure("viewat: \(read) of \(book.title) in \(book.year) is wrong") }
      guard recorder.finish() else { return }
    }
  }

  /// Measures the first count after an opening, which reads the counts.
  private func reportFirstUse<Engine: ShelfEngine>(_ engine: Engine, _ form: ShelfForm) throws {
    try engine.reopen()
    _ = try engine.countRows()
    let row = try shelfRow(engine, .viewat, form, "first use") { recorder in
      _ = try engine.count(of: ShelfYears.all.lowerBound)
      _ = recorder.finish()
    }
    try reportShelf(row, goal: RowGoal(.micros, 5_000))
  }

  // MARK: - Scans and builds

  func scanShelves<Engine: ShelfEngine>(_ type: Engine.Type) throws {
    for form in type.forms(.viewscan) {
      try withShelf(type, form) { engine in
        try fillShelf(engine)
        let row = try shelfRow(engine, .viewscan, form, "all keys") { recorder in
          let count = try engine.scan()
          guard count == settings.num else { throw EngineFailure("\(count) of \(settings.num) keys are there") }
          _ = recorder.finish(count)
        }
        try reportShelf(row, goal: RowGoal(.rate, 2_000_000))
      }
    }
  }

  /// Builds the order over existing books, and another definition while the first is in use. The operations are books.
  func buildShelves<Engine: ShelfEngine>(_ type: Engine.Type) throws {
    for form in type.forms(.viewbuild) {
      try withShelf(type, .rows) { engine in
        try fillShelf(engine)
        for isShadow in [false, true] {
          var isBuilt = false
          let row = try shelfRow(engine, .viewbuild, form, isShadow ? "in a shadow" : "by tables") { recorder in
            isBuilt = try engine.build(form, inShadow: isShadow)
            _ = recorder.finish(settings.num)
          }
          if !isBuilt { continue }
          let count = try ShelfYears.all.reduce(0) { $0 + (try engine.count(of: $1)) }
          guard count == settings.num else { throw EngineFailure("\(count) of \(settings.num) books were entered") }
          try reportShelf(row, goal: RowGoal(.rate, 300_000))
          _ = try engine.waitForCompaction()
        }
      }
    }
  }

  // MARK: - Memory and disk

  /// Measures the growth of resident memory by the first count after an opening, without a cache of blocks. The
  /// operations are books.
  func measureMemoryOfShelves<Engine: ShelfEngine>(_ type: Engine.Type) throws {
    for form in type.forms(.viewmemory) {
      try withShelf(type, form, cacheBytes: 0) { engine in
        try fillShelf(engine)
        try engine.reopen()
        _ = try engine.countRows()
        ExtensionRun.trim()
        let before = PeakMemory.current()
        var row = try shelfRow(engine, .viewmemory, form, "first use") { recorder in
          _ = try engine.count(of: ShelfYears.all.lowerBound)
          _ = recorder.finish(settings.num)
        }
        ExtensionRun.trim()
        let growth = max(0, PeakMemory.current() - before)
        row.bytesPerOp = Double(growth) / Double(settings.num)
        // 1.5 MB for a million entries.
        try reportShelf(row, goal: RowGoal(.bytes, 1.5))
      }
    }
  }

  /// Measures the bytes of tables that the order adds to those of the rows, after compaction. The operations are books.
  func measureDiskOfShelves<Engine: ShelfEngine>(_ type: Engine.Type) throws {
    var plain: UInt64 = 0
    for form in type.forms(.viewdisk) {
      try withShelf(type, form) { engine in
        var row = try shelfRow(engine, .viewdisk, form, "compacted") { recorder in
          try fillShelf(engine)
          try engine.compact()
          _ = recorder.finish(settings.num)
        }
        row.diskBytes = DirectoryUsage(path: enginePath, use: Engine.fileUse).tableBytes
        if form == .rows {
          plain = row.diskBytes
          row.bytesPerOp = Double(plain) / Double(settings.num)
          return try reportShelf(row)
        }
        row.bytesPerOp = (Double(row.diskBytes) - Double(plain)) / Double(settings.num)
        let keySize = try Engine.keySize(of: shelfSource.book(0))
        try reportShelf(row, goal: keySize.map { RowGoal(.bytes, Double(2 * $0 + 40)) })
      }
    }
  }

  // MARK: - Changes

  private static var followedRounds: Int { 50 }

  private static func goal(_ changes: ShelfChanges) -> RowGoal {
    RowGoal(.micros, changes == .all ? 2_500 : 1_000)
  }

  /// Measures what a list costs for each commit of 100 books.
  func followShelves<Engine: ShelfEngine>(_ type: Engine.Type) throws {
    for form in type.forms(.viewchanges) {
      for changes in ShelfChanges.allCases {
        let commits = commits(changes)
        try withShelf(type, form) { engine in
          try fillShelf(engine)
          var times: [UInt64]?
          let row = try shelfRow(engine, .viewchanges, form, changes.rawValue) { recorder in
            times = try engine.follow(changes, rounds: commits.count) { round in
              var changed = commits[round][...]
              try engine.update(changed.count) { changed.removeFirst() }
            }
            for time in times ?? [] { recorder.note(time) }
          }
          guard let times, !times.isEmpty else { return }
          try reportShelf(Self.averaged(row, times), goal: Self.goal(changes))
        }
      }
    }
  }

  /// Returns a row whose time is that of the measured steps alone.
  private static func averaged(_ row: Row, _ times: [UInt64]) -> Row {
    var row = row
    row.seconds = Double(times.reduce(0, +)) / 1e9
    row.microsPerOp = row.seconds * 1e6 / Double(times.count)
    row.opsPerSecond = row.seconds > 0 ? Double(times.count) / row.seconds : 0
    return row
  }

  /// Returns the books that each commit changes: books at random, which move, and for a list with a window also some of
  /// the first ones, which stay, so that the window changes with each commit.
  private func commits(_ changes: ShelfChanges) -> [[Book]] {
    let (source, num) = (shelfSource, settings.num)
    var random = SplitMix64(seed: settings.seed, stream: changes.rawValue, thread: 0)
    let first = changes == .all ? [] : firstNumbers(source)
    return (0..<Self.followedRounds).map { round in
      let count = min(ShelfChanges.changed, num)
      var shown: Set<Int> = []
      for index in 0..<min(first.count, count / 2) { shown.insert(first[(round + index) % first.count]) }
      var moved: Set<Int> = []
      while shown.count + moved.count < count {
        let number = Int(random.next(below: UInt64(num)))
        if !shown.contains(number) { moved.insert(number) }
      }
      return shown.sorted().map { source.repriced($0, round) } + moved.sorted().map { source.moved($0, round) }
    }
  }

  /// Returns the numbers of the books that a window shows first.
  private func firstNumbers(_ source: ShelfSource) -> [Int] {
    let books = (0..<settings.num).lazy.map { (number: $0, book: source.book($0)) }
    let first = books.filter { $0.book.year == ShelfYears.all.lowerBound }
    return first.sorted { ($0.book.title, $0.number) < ($1.book.title, $1.number) }
      .prefix(ShelfChanges.loaded / 2).map(\.number)
  }
}
