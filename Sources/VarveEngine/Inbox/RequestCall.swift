/// Carries out one request, on the thread of the inbox.
final class RequestCall: QueuedCall {
  private let inbox: EngineInbox
  private let file: RequestFile

  init(_ inbox: EngineInbox, _ file: RequestFile) {
    self.inbox = inbox
    self.file = file
  }

  func run() {
    guard !file.sender.hasEnded else { return cancel() }
    inbox.report(file.id, .runs(done: 0, total: 0))
    let answer: RequestAnswer
    do throws(EngineError) {
      guard let found = try inbox.carryOut(file) else { return cancel() }
      answer = found
    } catch { answer = .failed(error) }
    inbox.answer(file.id, answer, to: file.sender)
  }

  func cancel() {
    inbox.answer(file.id, .failed(EngineError(.closed, "the engine was closed before it began")), to: file.sender)
  }
}
