internal import Synchronization

/// Carries out the requests that other processes put into the directory of a database, and answers them.
///
/// # Steps of a request
/// 1. The sender writes `ID.request`, by a rename.
/// 2. The engine renames it to `ID.taken`. From then on the sender cannot withdraw it.
/// 3. The engine writes `ID.answer`: that the request waits, how far it is, and at the end the result. Each answer
///    replaces the previous one.
/// 4. The engine removes `ID.taken`. A sender that finds neither a last answer nor this file knows that the answer
///    could not be written. On a full disk, the last answer takes the place of this file.
/// 5. The sender removes `ID.answer`. If its process ended before, the engine does so at the next request, or the next
///    engine when it opens the database.
///
/// Nothing depends on a clock: whether a sender is still there is a question of its process. A request whose sender has
/// ended is not carried out.
///
/// # Concurrency
/// Safe from any thread. Requests are taken on the thread of the watches and carried out on one thread of the inbox's
/// own, one after the other; statistics are answered on a second one. The inbox does not retain the engine.
final class EngineInbox: Sendable {
  let directory: String
  let fileSystem: PosixFileSystem
  let background: BackgroundWork
  /// Carries out a request, and reports how far it is. Returns `nil` if the engine was released.
  typealias CarryOut =
    @Sendable (EngineRequest, @escaping (CompactionProgress) -> Void) throws(EngineError) -> RequestAnswer?

  private let threads = CallThreads(countMaximum: 1)
  /// The thread of requests that are answered at once.
  private let quick = CallThreads(countMaximum: 1)
  private let state = Mutex(State())

  private struct State {
    var carryOut: CarryOut?
    var watch: DirectoryWatch?
    var isClosing = false
    /// The senders of requests whose last answer was not seen to be removed.
    var answered: [UInt64: ProcessPlace] = [:]
    var unremoved: Set<UInt64> = []
  }

  /// Creates the inbox of an engine. Returns `nil` if other processes can't see its files, or it takes no requests.
  init?(_ background: BackgroundWork) {
    guard background.options.takesRequests, !background.options.readOnly,
      let fileSystem = background.tree.environment.fileSystem as? PosixFileSystem
    else { return nil }
    self.fileSystem = fileSystem
    self.background = background
    directory = background.tree.directory
  }

  /// Begins to take requests, also those that are there already. Returns false if the system can't watch the directory.
  func start(_ carryOut: @escaping CarryOut) -> Bool {
    let suffix = "." + InboxFileName.Kind.request.rawValue
    guard let watch = DirectoryWatch(directory, suffix: suffix, on: fileSystem, { [weak self] in self?.look() }) else {
      return false
    }
    state.withLock { state in
      state.carryOut = carryOut
      state.watch = watch
    }
    look()
    return true
  }

  /// Refuses the requests that wait, and returns when the one that is being carried out has ended. It ends early.
  func stop() {
    let watch = state.withLock { state in
      state.isClosing = true
      return state.watch.take()
    }
    background.endsRequests = true
    withExtendedLifetime(watch) {
      threads.shutDown()
      quick.shutDown()
    }
    for id in unremoved { remove(id) }
  }

  /// Carries out a request. Returns `nil` if the engine closes or was released.
  func carryOut(_ file: RequestFile) throws(EngineError) -> RequestAnswer? {
    guard let carryOut = state.withLock({ $0.isClosing ? nil : $0.carryOut }) else { return nil }
    return try carryOut(file.request) { [self] in report(file.id, .runs(done: $0.bytesDone, total: $0.bytesTotal)) }
  }

  /// The requests that have ended and whose files `.taken` could not be removed.
  var unremoved: Set<UInt64> { state.withLock(\.unremoved) }

  func path(_ name: InboxFileName) -> String { directory + "/" + name.name }

  // MARK: - Taking requests

  /// Takes the requests that are there.
  private func look() {
    for id in unremoved { remove(id) }
    removeUnread()
    guard let names = try? fileSystem.list(directory) else { return }
    for name in names.compactMap({ InboxFileName($0) }).sorted(by: { $0.id < $1.id })
    where name.kind == .request && !name.isPart && !state.withLock(\.isClosing) {
      take(name.id)
    }
  }

  private func take(_ id: UInt64) {
    let taken = path(InboxFileName(id, .taken))
    // The sender may have withdrawn the request.
    guard (try? fileSystem.rename(path(InboxFileName(id, .request)), to: taken)) != nil else { return }
    let file: RequestFile
    do throws(EngineError) {
      let bytes = try fileSystem.readOwn(taken, limit: RequestFile.sizeMaximum)
      file = try bytes.withByteView { (view) throws(EngineError) in try RequestFile(decoding: view, file: taken) }
      guard file.id == id else {
        throw .corruption("the request has another id than its name", file: taken, offset: 16)
      }
    } catch {
      return answer(id, .failed(error), to: nil)
    }
    if file.sender.hasEnded { return remove(id) }
    let call = RequestCall(self, file)
    report(id, .waits)
    // No request is carried out on the thread of the watches, which serves other engines, too.
    let isQueued = (file.request == .statistics ? quick : threads).submit(call, canRunHere: false)
    if !isQueued { call.cancel() }
  }

  // MARK: - Answers

  /// Reports how far a request is. Errors are ignored: the last answer says more.
  func report(_ id: UInt64, _ answer: RequestAnswer) {
    try? write(AnswerFile(id: id, answer: answer))
  }

  /// Gives the last answer.
  func answer(_ id: UInt64, _ answer: RequestAnswer, to sender: ProcessPlace?) {
    if sender?.hasEnded != true {
      do throws(EngineError) {
        do throws(EngineError) { try write(AnswerFile(id: id, answer: answer)) } catch {
          // Only a file of a known sender is certainly one that this engine may write to.
          guard error.code == .noSpace, sender != nil else { throw error }
          try answerInPlace(id, answer, error)
        }
        if let sender { state.withLock { $0.answered[id] = sender } }
      } catch {
        // The sender finds neither an answer nor the request, and says so.
        try? fileSystem.remove(path(InboxFileName(id, .answer)))
      }
    }
    remove(id)
  }

  /// Gives the last answer in the file of the request, for which a full disk has space.
  private func answerInPlace(_ id: UInt64, _ answer: RequestAnswer, _ error: EngineError) throws(EngineError) {
    var bytes = AnswerFile(id: id, answer: answer).encode()
    if bytes.count > Self.inPlaceMaximum {
      let failure = EngineError(
        .noSpace, "the request was carried out; its answer of \(bytes.count) bytes can't be written", cause: error)
      bytes = AnswerFile(id: id, answer: .failed(failure)).encode()
    }
    try fileSystem.rewrite(path(InboxFileName(id, .taken)), bytes, to: path(InboxFileName(id, .answer)))
  }

  /// The size of an answer that has a place in the file of its request: that of a block of a file system.
  private static let inPlaceMaximum = 4_096

  private func write(_ file: AnswerFile) throws(EngineError) {
    let name = InboxFileName(file.id, .answer)
    try fileSystem.writeWhole(file.encode(), path(name), part: path(name.part))
  }

  private func remove(_ id: UInt64) {
    let taken = path(InboxFileName(id, .taken))
    do throws(EngineError) { try fileSystem.remove(taken) } catch {
      if error.code != .notFound {
        // It is removed with the next request, or when the engine closes.
        return state.withLock { _ = $0.unremoved.insert(id) }
      }
    }
    state.withLock { _ = $0.unremoved.remove(id) }
  }

  /// Removes answers whose senders have ended without reading them.
  private func removeUnread() {
    for (id, sender) in state.withLock(\.answered) {
      let answer = path(InboxFileName(id, .answer))
      if sender.hasEnded { try? fileSystem.remove(answer) }
      guard (try? fileSystem.attributes(answer)) == .some(nil) else { continue }
      state.withLock { $0.answered[id] = nil }
    }
  }
}
