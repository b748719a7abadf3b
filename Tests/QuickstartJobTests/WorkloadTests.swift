import Testing

@testable import QuickstartJob

/// Tests of the job that checks the engine: a wrong model would hide errors of the database.
struct WorkloadTests {
  @Test(arguments: [1, 2, 955, 956, 957, 1_000, 100_000])
  func `batches hold every write once and in order`(writeCount: Int) {
    let workload = Workload(seed: 7, writeCount: writeCount)
    var next = 0
    for number in 0..<workload.batchCount {
      let batch = workload.batch(number)
      #expect(batch.lowerBound == next && !batch.isEmpty, "batch \(number)")
      #expect(workload.start(number) == next)
      next = batch.upperBound
    }
    #expect(next == writeCount)
  }

  @Test func `keys sort as their numbers do`() {
    let indexes = [0, 1, 9, 10, 99, 12_345, 500_000]
    let keys = indexes.map { String(decoding: Workload.key($0), as: UTF8.self) }
    #expect(keys == keys.sorted())
    #expect(Set(keys.map(\.utf8.count)) == [16])
  }

  @Test func `no two writes have the same value, and a write has the same value in every run`() {
    let workload = Workload(seed: 7, writeCount: 20_000)
    let values = (0..<20_000).map { workload.value($0) }
    #expect(Set(values).count == values.count)
    #expect(values == (0..<20_000).map { Workload(seed: 7, writeCount: 20_000).value($0) })
  }

  @Test func `the model has the content that the writes leave, after any batch and in any steps`() {
    let workload = Workload(seed: 7, writeCount: 30_000)
    var model = Model(workload)
    var expected: [[UInt8]: [UInt8]] = [:]
    var deletes = 0
    for number in 0..<workload.batchCount {
      for index in workload.batch(number) {
        let write = workload.write(index)
        expected[write.key] = write.value
        deletes += write.value == nil ? 1 : 0
      }
      guard number % 37 == 0 || number + 1 == workload.batchCount else { continue }
      model.advance(to: number + 1)
      let found = (0..<model.keyCount).filter { model.value($0) != expected[Workload.key($0)] }
      #expect(found.isEmpty, "after batch \(number)")
      #expect(model.liveCount == expected.count)
    }
    #expect(deletes > 2_000 && deletes < 4_000)
    #expect(expected.count > 1_000)
  }

  @Test func `an acknowledgement is decoded as the number that was encoded`() {
    let bytes: [UInt8] = [6, 5, 4, 3, 2, 1, 0, 0]
    #expect(Acknowledgements.decode(bytes) == 0x0102_0304_0506)
  }
}
