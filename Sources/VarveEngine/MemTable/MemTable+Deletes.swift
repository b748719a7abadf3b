/// Which deletes a memtable has.
extension MemTable {
  /// Notes that the memtable has deletes, and notifies the owner the first time. Writer only.
  @inline(never)
  func noteDelete() {
    hasDeletes = true
    onDelete?()
  }

  /// Forgets the deletes so far: the owner has dealt with them. Writer only.
  func forgetDeletes() { hasDeletes = false }
}
