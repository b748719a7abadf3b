import EngineTestSupport
import Synchronization
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of the page that an engine shares with followers.
struct SharedPageTests {
  private static let session = MachineSession(high: 0x0102_0304_0506_0708, low: 9)
  private let directory: TemporaryDirectory
  private let fileSystem = PosixFileSystem()
  private var path: String { directory.path + "/SHARED" }

  init() throws { directory = try TemporaryDirectory() }

  private func begin(_ page: SharedPage) {
    page.begin(
      lifeID: 0x11, session: Self.session, databaseID: 0x22, sequence: SequenceNumber(0x33), oldest: FileNumber(0x40),
      segment: FileNumber(0x44))
  }

  @Test func `every byte of the page is where the format says`() throws {
    let page = try SharedPage.make(at: path, fileSystem)
    begin(page)
    let bytes = try DirectoryImage(fileSystem, at: directory.path).files["SHARED"] ?? []
    #expect(bytes.count == 4096)
    #expect(Array(bytes[0..<8]) == Array("VARVEPAG".utf8))
    func word(_ offset: Int) -> UInt64 { bytes[offset..<offset + 8].reversed().reduce(0) { $0 << 8 | UInt64($1) } }
    #expect(word(8) == 2)
    #expect(word(16) == Self.session.high)
    #expect(word(24) == Self.session.low)
    #expect(word(32) == 0x22)
    #expect(word(40) == 0x11)
    #expect(word(48) == 0x33)
    #expect(word(56) == UInt64(CurrentProcess.number))
    #expect(word(64) == 0x44)
    #expect(word(72) == ProcessIdentity.current.start)
    #expect(word(80) == ProcessIdentity.namespace)
    #expect(word(88) == 0x40)
    #expect(word(128) == 0x33)
    let used = [0..<96, 128..<136, 192..<196]
    #expect(bytes.indices.allSatisfy { index in used.contains { $0.contains(index) } || bytes[index] == 0 })
  }

  @Test func `a page of another session, of another database or without a life is not read`() throws {
    let page = try SharedPage.make(at: path, fileSystem)
    #expect(page.read(session: Self.session, databaseID: 0x22) == nil)
    begin(page)
    let follower = try #require(try SharedPage.open(at: path, fileSystem))
    let reading = try #require(follower.read(session: Self.session, databaseID: 0x22))
    #expect(reading == .init(lifeID: 0x11, opened: SequenceNumber(0x33), announced: SequenceNumber(0x33)))
    #expect(follower.read(session: MachineSession(high: 1, low: 9), databaseID: 0x22) == nil)
    #expect(follower.read(session: Self.session, databaseID: 0x23) == nil)
    try SharedPage.invalidate(at: path, fileSystem)
    #expect(follower.read(session: Self.session, databaseID: 0x22) == nil, "the caller that has it mapped sees that")
  }

  @Test func `the writer's process is known only in its own life and process namespace`() throws {
    let page = try SharedPage.make(at: path, fileSystem)
    begin(page)
    let namespace = ProcessIdentity.namespace
    #expect(namespace != 0)
    #expect(page.writer(life: 0x11, namespace: namespace) == .current)
    #expect(page.writer(life: 0x12, namespace: namespace) == nil, "another life has begun")
    #expect(page.writer(life: 0x11, namespace: namespace + 1) == nil, "the process is in another container")
    try SharedPage.invalidate(at: path, fileSystem)
    #expect(page.writer(life: 0, namespace: 0) == nil)
  }

  @Test func `a process is distinguished from a later one with its number`() {
    let current = ProcessIdentity.current
    #expect(current.isAlive && current.isNumberInUse)
    // The largest number on any system is 4,194,304.
    let none = ProcessIdentity(number: 1 << 30, start: current.start)
    #expect(!none.isAlive && !none.isNumberInUse)
    #if os(Linux)
      let earlier = ProcessIdentity(number: current.number, start: current.start - 1)
      #expect(!earlier.isAlive && earlier.isNumberInUse)
    #endif
  }

  @Test func `a file of another size is not a page, and is converted without being replaced`() throws {
    try DirectoryImage.write([1, 2, 3], to: path, on: fileSystem)
    #expect(try SharedPage.open(at: path, fileSystem) == nil)
    let page = try SharedPage.make(at: path, fileSystem)
    begin(page)
    #expect(try fileSystem.attributes(path)?.size == 4096)
    #expect(try SharedPage.open(at: path, fileSystem)?.announced == SequenceNumber(0x33))
  }

  @Test func `every byte of a reader's slot is where the format says, and a free slot has no owner`() throws {
    let page = try SharedPage.make(at: path, fileSystem)
    begin(page)
    let kept = try #require(page.keepSegments(namespace: 0x55))
    let bytes = try DirectoryImage(fileSystem, at: directory.path).files["SHARED"] ?? []
    func word(_ offset: Int) -> UInt64 { bytes[offset..<offset + 8].reversed().reduce(0) { $0 << 8 | UInt64($1) } }
    let owner = word(256)
    #expect(owner & 0xffff_ffff == UInt64(CurrentProcess.number) && owner >> 32 != 0)
    #expect(word(264) == 0x40)
    #expect(word(272) == ProcessIdentity.current.start)
    #expect(word(280) == 0x55)
    #expect(word(288) == owner)
    #expect((296..<4096).allSatisfy { bytes[$0] == 0 })
    #expect(page.slot(0)?.segment == FileNumber(0x40) && page.slot(1) == nil)
    withExtendedLifetime(kept) {}
  }

  @Test func `readers keep segments by slots of their own, as many as there are`() throws {
    let page = try SharedPage.make(at: path, fileSystem)
    begin(page)
    let reader = try #require(try SharedPage.open(at: path, fileSystem))
    var kept = (0..<SharedPage.slotCount).map { _ in reader.keepSegments(namespace: 1) }
    #expect(kept.allSatisfy { $0 != nil })
    #expect(reader.keepSegments(namespace: 1) == nil)
    #expect((0..<SharedPage.slotCount).allSatisfy { page.slot($0) != nil })
    kept[7] = nil
    #expect(page.slot(7) == nil)
    page.setKept(FileNumber(0x43))
    let again = try #require(reader.keepSegments(namespace: 1))
    #expect(page.slot(7)?.segment == FileNumber(0x43))
    // A new engine honours none, and a reader of before does not free the slot of another one.
    begin(page)
    #expect((0..<SharedPage.slotCount).allSatisfy { page.slot($0) == nil })
    let other = try #require(reader.keepSegments(namespace: 1))
    kept[0] = nil
    #expect(page.slot(0) != nil)
    withExtendedLifetime((again, other)) {}
  }

  @Test func `a reader that may not write keeps nothing`() throws {
    let page = try SharedPage.make(at: path, fileSystem)
    begin(page)
    let reader = try #require(try SharedPage.open(at: path, UnwritableFileSystem(fileSystem)))
    #expect(!reader.isWritable)
    #expect(reader.keepSegments(namespace: 1) == nil)
    #expect(page.slot(0) == nil)
  }

  @Test func `segments are kept from a slot's first one on, for ten seconds, and for processes that are alive`() throws
  {
    let page = try SharedPage.make(at: path, fileSystem)
    begin(page)
    let clock = ManualClock()
    var pins = ReaderPins(page, clock)
    #expect(pins.firstKept(before: FileNumber(0x42), isWithinBytes: true) == FileNumber(0x42), "no reader")
    let kept = page.keepSegments(namespace: ProcessIdentity.namespace)
    #expect(page.slot(0)?.segment == FileNumber(0x42), "what may be freed is not kept")
    #expect(pins.firstKept(before: FileNumber(0x45), isWithinBytes: true) == FileNumber(0x42))
    #expect(pins.firstKept(before: FileNumber(0x46), isWithinBytes: false) == FileNumber(0x46), "too many bytes")
    // A process of another container may be alive.
    let far = page.keepSegments(namespace: ProcessIdentity.namespace + 1)
    #expect(pins.firstKept(before: FileNumber(0x47), isWithinBytes: true) == FileNumber(0x42))
    clock.advance(ReaderPins.honouredNanoseconds - 1)
    #expect(pins.firstKept(before: FileNumber(0x48), isWithinBytes: true) == FileNumber(0x42))
    clock.advance(1)
    #expect(pins.firstKept(before: FileNumber(0x49), isWithinBytes: true) == FileNumber(0x49))
    #expect(page.slot(0) == nil && page.slot(1) == nil, "the slots are free again")
    withExtendedLifetime((kept, far)) {}
    // A process that has ended.
    let dead = page.keepSegments(namespace: ProcessIdentity.namespace)
    let owner = UInt64(7) << 32 | 1 << 30
    page.store(owner, 256)
    page.store(owner, 288)
    #expect(pins.firstKept(before: FileNumber(0x50), isWithinBytes: true) == FileNumber(0x50))
    #expect(page.slot(0) == nil)
    // A process that died while it took the slot.
    page.store(owner, 256)
    page.store(0x49, 264)
    page.store(0, 288)
    #expect(pins.firstKept(before: FileNumber(0x51), isWithinBytes: true) == FileNumber(0x49))
    clock.advance(ReaderPins.honouredNanoseconds)
    #expect(pins.firstKept(before: FileNumber(0x52), isWithinBytes: true) == FileNumber(0x52))
    withExtendedLifetime(dead) {}
  }

  @Test func `segments are kept from the announced one on, however the engine and a reader interleave`() throws {
    let page = try SharedPage.make(at: path, fileSystem)
    begin(page)
    let reader = try #require(try SharedPage.open(at: path, fileSystem))
    let freed = Atomic<UInt64>(0x40)
    let isDone = Atomic<Bool>(false)
    let faults = Atomic<Int>(0)
    let threads = TestThreads()
    threads.start("engine") {
      var pins = ReaderPins(page, ManualClock())
      for number in UInt64(0x41)...0x2_0000 {
        let bound = pins.firstKept(before: FileNumber(number), isWithinBytes: true)
        // Segments before the bound are freed.
        if bound.value > freed.load(ordering: .relaxed) {
          freed.store(bound.value, ordering: .sequentiallyConsistent)
        }
      }
      isDone.store(true, ordering: .releasing)
    }
    threads.start("reader") {
      while !isDone.load(ordering: .acquiring) {
        guard let kept = reader.keepSegments(namespace: 1) else { continue }
        let first = reader.slot(0)?.segment.value ?? 0
        for _ in 0..<50 where freed.load(ordering: .sequentiallyConsistent) > first {
          faults.add(1, ordering: .relaxed)
        }
        withExtendedLifetime(kept) {}
      }
    }
    let problems = threads.finish()
    #expect(problems.isEmpty, "\(problems)")
    #expect(faults.load(ordering: .relaxed) == 0)
  }

  @Test func `no wake-up of a sleeping process is lost`() throws {
    let page = try SharedPage.make(at: path, fileSystem)
    begin(page)
    let follower = try #require(try SharedPage.open(at: path, fileSystem))
    let rounds = 2_000
    let passed = Atomic<Int>(0)
    let threads = TestThreads()
    // With a timeout of an hour, only a wake-up can end the wait in time.
    let hour: UInt64 = 3_600_000_000_000
    threads.start("sleeper") {
      for round in 1...rounds {
        let announced = SequenceNumber(0x32 + UInt64(round))
        while follower.announced == announced { follower.rest(while: announced, nanoseconds: hour) }
        passed.store(round, ordering: .releasing)
      }
    }
    threads.start("waker") {
      for round in 1...rounds {
        while unsafe page.waitersWord.pointee.load(ordering: .sequentiallyConsistent) == 0 {
          CurrentProcess.yieldThread()
        }
        // The order is that of a commit: a store, a full barrier, and a load.
        unsafe page.announcedWord.pointee.store(0x33 + UInt64(round), ordering: .sequentiallyConsistent)
        if unsafe page.waitersWord.pointee.load(ordering: .sequentiallyConsistent) != 0 { page.wake() }
        while passed.load(ordering: .acquiring) < round { CurrentProcess.yieldThread() }
      }
    }
    let problems = threads.finish()
    #expect(problems.isEmpty, "\(problems)")
    #expect(unsafe page.waitersWord.pointee.load(ordering: .relaxed) <= 1)
  }

  @Test func `the machine's session is the same each time`() throws {
    let session = try #require(fileSystem.machineSession())
    #expect(session == fileSystem.machineSession())
    #expect(PosixFileSystem(mapsFiles: false).machineSession() == nil)
    #expect(MachineSession("01234567-89ab-cdef-fedc-ba9876543210\n")?.high == 0x0123_4567_89ab_cdef)
    #expect(MachineSession("01234567-89ab-cdef-fedc-ba9876543210\n")?.low == 0xfedc_ba98_7654_3210)
    #expect(MachineSession("0123") == nil)
  }
}
