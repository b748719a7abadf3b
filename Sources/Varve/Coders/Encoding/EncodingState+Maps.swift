/// Encodes maps, and containers with their own buffers.
extension EncodingState {
  /// Begins an entry of a map by writing its key.
  mutating func beginEntry(_ slot: Int, _ name: String) {
    entryStarts.append(output.count)
    output.write(name)
    frames[slot].next += 1
  }

  /// Returns the range of an entry's key, without its tag and size.
  private func keyRange(at start: Int) -> Range<Int> {
    let source = unsafe ByteSource(output.content)
    var offset = start
    // The key was just written at this offset.
    guard let tag = try? source.next(&offset) else { return start..<start }
    let isShort = tag >= ValueTag.shortString && tag < ValueTag.mediumInteger
    let size = isShort ? Int(tag & 0x3f) : (try? source.count(&offset, sizeMinimum: 1)) ?? 0
    return offset..<min(offset + size, output.count)
  }

  func entryName(at start: Int) -> String { String(decoding: output.copy(keyRange(at: start)), as: UTF8.self) }

  /// Ends a map. Its entries are sorted in ascending order of their keys, so that equal dictionaries have equal bytes.
  mutating func finishMap(_ slot: Int) throws {
    let frame = frames[slot]
    let starts = Array(entryStarts[frame.entries...])
    entryStarts.removeSubrange(frame.entries...)
    let keys = starts.map { keyRange(at: $0) }
    let isSorted = zip(keys, keys.dropFirst()).allSatisfy { output.compare($0, $1) < 0 }
    if !isSorted {
      let order = keys.indices.sorted { output.compare(keys[$0], keys[$1]) < 0 }
      if let twin = zip(order, order.dropFirst()).first(where: { output.compare(keys[$0], keys[$1]) == 0 }) {
        throw error(slot, key: PathKey(stringValue: entryName(at: starts[twin.0])), EncodingState.repeatedKey)
      }
      let old = output.copy(frame.body..<output.count)
      let ends = Array(starts.dropFirst()) + [output.count]
      output.truncate(to: frame.body)
      for index in order { output.append(old[(starts[index] - frame.body)..<(ends[index] - frame.body)]) }
    }
    output.writeMapHeader(frame.next, at: frame.start, size: frame.body - frame.start)
  }

  // MARK: - Separate buffers

  /// Returns a core with its own buffer for a nested container, if the mode requires one. Its bytes are inserted here
  /// when the frame ends. The position in the frame was already written.
  mutating func detach(_ slot: Int, _ shapes: ShapeCache, key: any CodingKey) throws -> EncodingCore? {
    guard modes.contains(.detached) || isDetached else { return nil }
    if frames[slot].isUniform { _ = try tagElements(slot) }
    let depth = depthAbove + slot + 1
    let core = EncodingCore(
      shapes, outcome, isDetached: true, depthAbove: depth, pathAbove: path(to: slot) + [key])
    core.state.pointee.reset(modes)
    _ = try core.state.pointee.push()
    attachments.append(Attachment(slot: slot, offset: output.count, core: core))
    if frames[slot].kind == .array { frames[slot].next += 1 }
    return core
  }

  /// Inserts the bytes of the nested containers of a frame.
  mutating func attach(_ slot: Int) throws {
    while let last = attachments.last, last.slot == slot {
      attachments.removeLast()
      defer { last.core.destroy() }
      let bytes = try last.core.finish()
      output.insert(bytes, at: last.offset)
      guard frames[slot].kind == .map else { continue }
      for index in frames[slot].entries..<entryStarts.count where entryStarts[index] >= last.offset {
        entryStarts[index] += bytes.count
      }
    }
  }
}
