import EngineTestSupport
import Synchronization
import Testing

@testable import EngineFixtures
@testable import VarveEngine

#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#endif

/// Tests of the queue alone: which thread leads, which commits, and which is woken.
///
/// Run this suite with the thread sanitizer, too: the leader's state has no lock.
struct CommitQueueTests {
  /// Commits that only record their order, on a real queue.
  private final class Line: @unchecked Sendable {
    // Sendable: the leader's properties are touched only while leading, `payload` is only read, and all others are
    // atomic.
    let queue = CommitQueue()
    let threads = TestThreads()
    let isDone = Atomic<Bool>(false)
    /// The number of threads that are in `commit`, or a step before it.
    let committing = Atomic<Int>(0)
    private let isApplying = Atomic<Bool>(false)
    private let payload: ByteWriter
    /// The tags in the order of the commits. These properties belong to the leader.
    private(set) var order: [Int] = []
    private(set) var servedMaximum = 0
    private(set) var servedCount = 0
    private var served = 0
    /// A function that is called before each commit for another thread.
    var beforeServing: (@Sendable () -> Void)?

    init(payloadSize: Int = 0) {
      var payload = ByteWriter(capacity: max(payloadSize, 16))
      for _ in 0..<payloadSize { payload.append(integer: UInt8(0)) }
      self.payload = payload
    }

    /// Returns the position of the commit in the order of all.
    func commit(_ tag: Int) throws -> Int {
      committing.add(1, ordering: .sequentiallyConsistent)
      defer { committing.subtract(1, ordering: .sequentiallyConsistent) }
      if let lead = queue.tryLead() {
        served = 0
        defer { queue.resign(lead) { request, _ in serve(request) } }
        return apply(tag)
      }
      let request = CommitRequest(payload: payload.view, entryCount: tag, isLogged: false)
      if let lead = queue.enqueue(request) {
        served = 0
        queue.serveOwn(request, lead) { request, _ in serve(request) }
        queue.resign(lead) { request, _ in serve(request) }
      }
      if let error = request.error { throw error }
      return Int(request.receipt.sequence.value)
    }

    /// Takes the lead and keeps it. Returns false if another thread leads.
    func takesLead() -> Bool { queue.tryLead() != nil }

    /// Leads like `CommitPipeline.lead`.
    func lead(_ body: () -> Void) {
      if let lead = queue.tryLead() { return self.lead(lead, body) }
      let request = CommitRequest(payload: ByteView(), entryCount: 0, isLogged: false, wantsLead: true)
      guard let lead = queue.enqueue(request) else {
        return threads.report("a request to lead was served like a commit")
      }
      queue.serveOwn(request, lead) { _, _ in }
      self.lead(lead, body)
    }

    private func lead(_ lead: borrowing CommitLead, _ body: () -> Void) {
      served = 0
      alone(body)
      queue.resign(lead) { request, _ in serve(request) }
    }

    private func apply(_ tag: Int) -> Int {
      alone {
        order.append(tag)
        // Other threads arrive while this one leads, even if there are fewer processors than threads.
        if order.count % 8 == 0 { sched_yield() }
      }
      return order.count
    }

    private func serve(_ request: CommitRequest) {
      beforeServing?()
      served += 1
      servedCount += 1
      servedMaximum = max(servedMaximum, served)
      if request.wantsLead { threads.report("a request to lead was served like a commit") }
      if Line.fails(request.entryCount) {
        request.error = EngineError(.invalidArgument, "\(request.entryCount)")
      } else {
        request.receipt = .init(sequence: SequenceNumber(UInt64(apply(request.entryCount))), position: .zero)
      }
    }

    private func alone(_ body: () -> Void) {
      if isApplying.exchange(true, ordering: .relaxed) { threads.report("two threads lead") }
      body()
      isApplying.store(false, ordering: .relaxed)
    }

    /// Returns whether a commit fails when another thread makes it.
    static func fails(_ tag: Int) -> Bool { tag % 97 == 0 }
    static func tag(_ writer: Int, _ number: Int) -> Int { writer << 32 | number }
  }

  /// The positions of each writer's commits in the order, by the writer's number.
  private typealias Locations = Mutex<[Int: [(tag: Int, location: Int)]]>

  @Test(arguments: [2, 4, 8])
  func `every commit returns in its writer's order, and its error is thrown to its caller alone`(count: Int) {
    let line = Line()
    let commits = TestScale.atMost(24_000) / count
    let locations = Locations([:])
    guard let lead = line.queue.tryLead() else {
      Issue.record("no one leads, and the lead was refused")
      return
    }
    for writer in 0..<count {
      line.threads.start("writer \(writer)") {
        var random = SeededRandom(seed: UInt64(writer))
        var found: [(tag: Int, location: Int)] = []
        for number in 1...commits {
          let tag = Line.tag(writer, number)
          do {
            found.append((tag, try line.commit(tag)))
          } catch let error as EngineError {
            if error.message != "\(tag)" || !Line.fails(tag) { line.threads.report("\(tag) failed by \(error)") }
          }
          if random.oneIn(200) { line.lead {} }
          if random.oneIn(200), let lead = line.queue.tryLead() { line.queue.handBack(lead) }
        }
        locations.withLock { $0[writer] = found }
      }
    }
    // The first to lead finds the others waiting, even if later on no two threads run at once.
    while line.queue.waitingCount(lead) < count { sched_yield() }
    line.queue.handBack(lead)
    #expect(line.threads.finish() == [])
    let found = locations.withLock { $0 }
    #expect(found.values.reduce(0) { $0 + $1.count } == line.order.count)
    for (writer, commits) in found {
      #expect(zip(commits, commits.dropFirst()).allSatisfy { $0.location < $1.location }, "writer \(writer)")
      #expect(commits.allSatisfy { line.order[$0.location - 1] == $0.tag }, "writer \(writer)")
    }
    // There are four lists, in each of which every other writer is at most once, and the leader's own commit.
    #expect(line.servedMaximum <= 4 * (count - 1) + 1)
    #expect(line.servedCount > 0)
    #expect(line.takesLead(), "the lead was not given back")
  }

  @Test(arguments: [0, 256 << 10])
  func `a leader passes the lead on instead of committing for others without end`(payloadSize: Int) {
    let line = Line(payloadSize: payloadSize)
    // While a commit is made, another one always waits or is about to.
    line.beforeServing = {
      while line.committing.load(ordering: .relaxed) < 2, !line.isDone.load(ordering: .relaxed) { sched_yield() }
    }
    line.threads.start("leader") {
      line.lead {
        while line.committing.load(ordering: .relaxed) < 4 || !line.queue.hasWaiting { sched_yield() }
      }
      // These commits let other threads lead and pass the lead on, too.
      for number in 1...500 { _ = try line.commit(Line.tag(0, number * 97 + 1)) }
      line.isDone.store(true, ordering: .relaxed)
    }
    for writer in 1...4 {
      line.threads.start("writer \(writer)") {
        var number = 0
        while !line.isDone.load(ordering: .relaxed) {
          number += 1
          do { _ = try line.commit(Line.tag(writer, number)) } catch {}
        }
      }
    }
    #expect(line.threads.finish() == [])
    #expect(line.servedCount > 0)
    // At most one mebibyte of other commits, and the leader's own.
    #expect(line.servedMaximum <= (payloadSize == 0 ? 17 : (1 << 20) / payloadSize + 1))
  }

  @Test func `a leader that commits for no writer passes the lead to a waiting writer`() {
    let line = Line()
    guard let lead = line.queue.tryLead() else {
      Issue.record("no one leads, and the lead was refused")
      return
    }
    for writer in 1...3 {
      line.threads.start("writer \(writer)") { _ = try line.commit(Line.tag(writer, 1)) }
    }
    while line.committing.load(ordering: .relaxed) < 3 { sched_yield() }
    line.queue.handBack(lead)
    #expect(line.threads.finish() == [])
    #expect(Set(line.order) == Set((1...3).map { Line.tag($0, 1) }))
    #expect(line.takesLead(), "the lead was not given back")
  }
}
