/// Maps, and containers with a buffer of their own.
extension EncodingState {
  /// Begins an entry of a map with its key.
  mutating func beginEntry(_ slot: Int, _ name: String) {
    entryStarts.append(output.count)
    output.write(name)
    frames[slot].next += 1
  }

  /// The key of an entry, without what makes it a value.
  private func keyRange(at start: Int) -> Range<Int> {
    let source = unsafe ByteSource(output.content)
    var offset = start
    // What was just written there.
    guard let tag = try? source.next(&offset) else { return start..<start }
    let isShort = tag >= ValueTag.shortString && tag < ValueTag.mediumInteger
    let size = isShort ? Int(tag & 0x3f) : (try? source.count(&offset, sizeMinimum: 1)) ?? 0
    return offset..<min(offset + size, output.count)
  }

  func entryName(at start: Int) -> String { String(decoding: output.copy(keyRange(at: start)), as: UTF8.self) }

  /// Ends a map: its entries in ascending order of their keys, whatever order they came in, so that equal dictionaries
  /// have equal bytes.
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

  // MARK: - Buffers of their own

  /// A core for a container inside of a frame, where the mode asks for that; its bytes go here when the frame ends.
  /// The position in the frame was made before.
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

  /// Puts in what the containers inside of a frame have written meanwhile.
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
