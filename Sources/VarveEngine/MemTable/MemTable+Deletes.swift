/// Which deletes a memtable has.
extension MemTable {
  /// Notes a delete, and notifies the owner of the first one. Writer only.
  @inline(__always)
  func noteDelete(_ sequence: SequenceNumber) {
    newestDelete = sequence
    if !hasDeletes { noteFirstDelete() }
  }

  @inline(never)
  private func noteFirstDelete() {
    hasDeletes = true
    onDelete?()
  }

  /// Forgets the deletes so far: the owner has dealt with them. Writer only.
  func forgetDeletes() { hasDeletes = false }
}
