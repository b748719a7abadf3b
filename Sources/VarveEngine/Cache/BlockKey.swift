/// The name of a block in the cache: the random id of its table and its offset there.
///
/// Table ids are never used again, so a block of a table that is gone is never found for another; it
/// is evicted in its turn.
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

  /// 64 mixed bits: the cache takes the shard from the upper ones, the position in the shard from the
  /// lower ones. Not on disk.
  @inline(__always)
  var cacheHash: UInt64 {
    // The odd factor keeps the blocks of one table apart before the two words are added.
    let sum = tableID &+ offset &* 0x9e37_79b9_7f4a_7c15
    let product = sum.multipliedFullWidth(by: 0xbb67_ae85_84ca_a73b)
    return product.high ^ product.low
  }
}
