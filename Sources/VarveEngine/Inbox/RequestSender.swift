/// Asks the engine that has a database open in another process, and waits for its answer.
///
/// ```swift
/// let sender = RequestSender(at: "/data/example.varve")
/// if case .answer(.flushed) = try sender.send(.flush) { … }
/// ```
///
/// Use a sender on one thread at a time.
package struct RequestSender {
  /// The result of a request.
  package enum Outcome: Sendable {
    /// The engine has carried out the request, or refused it.
    case answer(RequestAnswer)
    /// The process ended, or closed the database. `wasTaken` is whether it may have begun to carry out the request.
    case ended(wasTaken: Bool)
  }

  private let path: String
  private let fileSystem: PosixFileSystem
  private let clock: any EngineClock
  /// The time until an engine must have begun to answer.
  private let patience: UInt64

  /// The time between two looks for an answer.
  private static let pause: UInt64 = 10_000_000
  /// The number of looks between two attempts to find a process of another container by its lock.
  private static let looksPerProbe = 200

  /// Creates a sender. An engine must have begun to answer after `patience` nanoseconds.
  package init(at path: String, patience: UInt64 = 30_000_000_000, clock: any EngineClock = SystemClock()) {
    self.init(at: path, patience: patience, clock: clock, PosixFileSystem())
  }

  init(at path: String, patience: UInt64, clock: any EngineClock = SystemClock(), _ fileSystem: PosixFileSystem) {
    self.path = path
    self.patience = patience
    self.clock = clock
    self.fileSystem = fileSystem
  }

  /// Sends a request, and returns the answer.
  ///
  /// Throws `.locked` if the process that has the database open takes no requests or does not begin to answer in time,
  /// and errors of the file system. The request is withdrawn then, as far as the file system allows it.
  package func send(
    _ request: EngineRequest, progress: (RequestAnswer) -> Void = { _ in }
  ) throws(EngineError) -> Outcome {
    let start = clock.now()
    guard let note = try findEngine(since: start) else { return .ended(wasTaken: false) }
    let id = UInt64.random(in: .min ... .max)
    let name = InboxFileName(id, .request)
    let file = RequestFile(id: id, sender: .current, request: request)
    do throws(EngineError) {
      try fileSystem.writeWhole(file.encode(), path(name), part: path(name.part))
    } catch {
      throw EngineError(
        error.code, "\(note.who) has the database open, and can't be asked: the request can't be written",
        cause: error, file: path)
    }
    do throws(EngineError) { return try wait(for: id, from: note, since: start, progress) } catch {
      for kind in [InboxFileName.Kind.request, .answer] { try? fileSystem.remove(path(InboxFileName(id, kind))) }
      throw error
    }
  }

  private func wait(
    for id: UInt64, from first: LockNote, since start: UInt64, _ progress: (RequestAnswer) -> Void
  ) throws(EngineError) -> Outcome {
    var note = first
    var looks = 0
    var hasNext = false
    while true {
      if let answer = try read(id) {
        if answer.isFinal {
          // The engine may not have removed the request yet.
          for kind in [InboxFileName.Kind.taken, .answer] { try? fileSystem.remove(path(InboxFileName(id, kind))) }
          return outcome(answer, of: note.who)
        }
        progress(answer)
      }
      looks += 1
      if try hasEnded(note, probes: looks.isMultiple(of: Self.looksPerProbe)) {
        // The next process may have taken the request by now.
        guard try !withdraw(id) else { return .ended(wasTaken: false) }
        guard let next = LockNote(at: path), !next.place.hasEnded, next.place != note.place else {
          return try end(id, of: note.who)
        }
        note = next
        hasNext = true
      }
      if try fileSystem.attributes(path(InboxFileName(id, .request))) != nil {
        if clock.now() - start > patience, try withdraw(id) { throw silent(note.who) }
      } else if try fileSystem.attributes(path(InboxFileName(id, .taken))) == nil {
        // The answer was written before the request was removed.
        if let answer = try read(id), answer.isFinal { continue }
        var hasEnded = hasNext
        if !hasEnded { hasEnded = try self.hasEnded(note, probes: true) }
        if hasEnded { return try end(id, of: note.who) }
        throw EngineError(
          .inputOutput,
          "\(note.who) has carried out the request, or given it up, without an answer: it has opened the database "
            + "again, or could not write; is the disk full?",
          file: path)
      } else {
        try checkWritable(note)
      }
      clock.pause(Self.pause)
    }
  }

  /// Throws if no process can write an answer any more.
  private func checkWritable(_ note: LockNote) throws(EngineError) {
    do throws(EngineError) { try fileSystem.checkWritable(path) } catch {
      throw EngineError(
        error.code,
        "\(note.who) has taken the request and can't answer, because files in the directory can't be changed any more; "
          + "the request may have been carried out",
        cause: error, file: path)
    }
  }

  /// Waits for the note of the engine that has the lock. Returns `nil` if it was opened by this time.
  private func findEngine(since start: UInt64) throws(EngineError) -> LockNote? {
    while true {
      if let note = LockNote(at: path), !note.place.hasEnded {
        switch note.state {
        case .requests: return note
        case .alone:
          throw EngineError(
            .locked,
            "\(note.who) has the database open and takes no requests of others: its program set takesRequests to "
              + "false, or the system could not watch the directory",
            file: path)
        case .opens: break
        }
      }
      // Who may not take the lock, as on a file system that is mounted read-only, can't ask either.
      if try !isLocked(ifUnknown: false) { return nil }
      if clock.now() - start > patience {
        let who = LockNote(at: path).flatMap { $0.place.hasEnded ? nil : $0.who }
        if let who { throw silent(who) }
        throw EngineError(
          .locked,
          "a process\(published) has the database open, and its program is older than requests of others, or its disk "
            + "was full when it opened the database: stop it, and build it with this version",
          file: path)
      }
      clock.pause(Self.pause)
    }
  }

  /// The number of the process that publishes statistics, for messages.
  private var published: String {
    guard let found = try? PublishedStatistics.read(at: path), found.isRunning else { return "" }
    return " (\(found.processID))"
  }

  private func silent(_ who: String) -> EngineError {
    EngineError(
      .locked, "\(who) has the database open and did not answer within \(patience / 1_000_000_000) s", file: path)
  }

  private func path(_ name: InboxFileName) -> String { path + "/" + name.name }

  /// Reads the answer. Returns `nil` if there is none.
  private func read(_ id: UInt64) throws(EngineError) -> RequestAnswer? {
    let name = path(InboxFileName(id, .answer))
    do throws(EngineError) {
      let bytes = try fileSystem.readAnswer(name)
      let file = try bytes.withByteView { (view) throws(EngineError) in try AnswerFile(decoding: view, file: name) }
      guard file.id == id else { throw .corruption("the answer has another id than its name", file: name, offset: 16) }
      return file.answer
    } catch {
      if error.code == .notFound { return nil }
      throw error
    }
  }

  /// Returns whether a process has the lock, or `unknown` if this process may not try it. Makes no file: a checkpoint
  /// that was never opened has none.
  private func isLocked(ifUnknown unknown: Bool? = nil) throws(EngineError) -> Bool {
    let lock = path + "/" + FileName.lock.name
    guard try fileSystem.attributes(lock) != nil else { return false }
    do throws(EngineError) {
      try fileSystem.lock(lock).release()
      return false
    } catch {
      if let unknown, error.code == .permissionDenied || error.code == .notReadableNow { return unknown }
      guard error.code == .locked else { throw error }
      return true
    }
  }

  /// Returns whether the process that wrote the note has closed the database or ended.
  private func hasEnded(_ note: LockNote, probes: Bool) throws(EngineError) -> Bool {
    if note.place.hasEnded { return true }
    if let present = LockNote(at: path) { return present.place != note.place }
    // The note is gone shortly before the lock is.
    return try probes ? !isLocked() : false
  }

  /// Withdraws a request. Returns false if it was taken. Throws if it stays, although it was not taken.
  private func withdraw(_ id: UInt64) throws(EngineError) -> Bool {
    let name = path(InboxFileName(id, .request))
    do throws(EngineError) { try fileSystem.remove(name) } catch {
      if error.code == .notFound { return false }
      throw EngineError(
        error.code, "no process has taken the request, and it can't be withdrawn: it may be carried out later",
        cause: error, file: name)
    }
    return true
  }

  /// Removes what is left of a request whose engine has ended after it took it.
  private func end(_ id: UInt64, of who: String) throws(EngineError) -> Outcome {
    defer { for kind in InboxFileName.Kind.allCases { try? fileSystem.remove(path(InboxFileName(id, kind))) } }
    if let answer = try read(id), answer.isFinal { return outcome(answer, of: who) }
    return .ended(wasTaken: true)
  }

  /// Returns the outcome of the last answer. An error names the process that met it.
  private func outcome(_ answer: RequestAnswer, of who: String) -> Outcome {
    guard case .failed(let error) = answer else { return .answer(answer) }
    // An engine that closes leaves nothing of what it had begun.
    if error.code == .closed || error.code == .canceled { return .ended(wasTaken: false) }
    return .answer(
      .failed(
        EngineError(
          error.code, "\(who), which has the database open, has refused or failed: \(error.message)",
          cause: error.cause, file: error.file, offset: error.offset)))
  }
}

extension PosixFileSystem {
  fileprivate func readAnswer(_ path: String) throws(EngineError) -> [UInt8] {
    let file = try openFile(path, writable: false)
    defer { file.close() }
    let size = try file.size()
    guard size <= AnswerFile.sizeMaximum else {
      throw .corruption("the file has \(size) bytes; at most \(AnswerFile.sizeMaximum) are expected", file: path)
    }
    var bytes = [UInt8](repeating: 0, count: Int(size))
    let count = try file.read(into: &bytes, at: 0)
    bytes.removeLast(bytes.count - count)
    return bytes
  }
}
