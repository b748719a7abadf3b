/// The key of a block in the cache: the random id of its table and its offset in the table.
///
/// Table ids are not reused, so a block of a removed table is never found for another one; it is evicted in its turn.
struct BlockKey: Hashable, Sendable {
  let tableID: UInt64
  let offset: UInt64

  @inline(__always)
  init(tableID: UInt64, offset: UInt64) {
    self.tableID = tableID
    self.offset = offset
  }

  @inline(__always)
  static func == (left: BlockKey, right: BlockKey) -> Bool {
    (left.tableID ^ right.tableID) | (left.offset ^ right.offset) == 0
  }

  /// A hash of 64 mixed bits, which is not stored on disk.
  ///
  /// The cache takes the shard from the upper bits and the position in the shard from the lower ones.
  @inline(__always)
  var cacheHash: UInt64 {
    // The odd factor separates the blocks of one table before the two words are added.
    let sum = tableID &+ offset &* 0x9e37_79b9_7f4a_7c15
    let product = sum.multipliedFullWidth(by: 0xbb67_ae85_84ca_a73b)
    return product.high ^ product.low
  }
}
