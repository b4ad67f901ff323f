/** A handle on a copy in the spool, for backends whose files cannot be changed in place. */
import { open as openFile, type FileHandle } from 'node:fs/promises'
import { basename } from 'node:path'
import type { Attributes, OpenFile } from '../contract/capabilities.js'
import type { Source } from '../contract/call-options.js'
import type { Entry } from '../contract/entry.js'
import { convertDiskFull, readFrom, type Spool } from './spool.js'

/**
 * A file in the spool, initially empty or with the stored content. Reads and writes at any position; `commit` writes it
 * back.
 */
export class SpooledFile implements OpenFile {
  private constructor(
    readonly entry: Entry,
    private readonly handle: FileHandle,
    private readonly spool: Spool,
    private readonly file: string,
    private readonly writeBack: (source: Source, attributes: Attributes) => Promise<Entry>,
    size: number,
  ) {
    this.#size = size
  }

  #committing: Promise<unknown> = Promise.resolve()
  /** The size of the file, including pending writes. */
  #size: number

  /** `content`: the initial content; undefined for an empty file. */
  static async open(
    spool: Spool,
    entry: Entry,
    content: Source | undefined,
    writeBack: (source: Source, attributes: Attributes) => Promise<Entry>,
    signal?: AbortSignal,
  ): Promise<SpooledFile> {
    const received = content && (await spool.receive(content, signal))
    const file = received?.file ?? spool.newFile()
    try {
      const handle = await openFile(file, received ? 'r+' : 'wx+', 0o600)
      return new SpooledFile(entry, handle, spool, file, writeBack, received?.size ?? 0)
    } catch (error) {
      await spool.remove(basename(file))
      throw error
    }
  }

  async read(into: Buffer, position: number): Promise<number> {
    let filled = 0
    while (filled < into.length) {
      const { bytesRead } = await this.handle.read(into, filled, into.length - filled, position + filled)
      if (bytesRead === 0) break
      filled += bytesRead
    }
    return filled
  }

  async write(from: readonly Buffer[], position: number): Promise<void> {
    this.#resize(
      Math.max(
        this.#size,
        from.reduce((end, { length }) => end + length, position),
      ),
    )
    await convertDiskFull(async () => {
      let at = position
      for (const bytes of from) {
        for (let done = 0; done < bytes.length;) {
          done += (await this.handle.write(bytes, done, bytes.length - done, at + done)).bytesWritten
        }
        at += bytes.length
      }
    })
  }

  async truncate(size: number): Promise<void> {
    if (size > this.#size) this.#resize(size)
    await convertDiskFull(() => this.handle.truncate(size))
    if (size < this.#size) this.#resize(size)
  }

  #resize(size: number): void {
    this.spool.resize(this.file, size)
    this.#size = size
  }

  async commit(attributes: Attributes = {}): Promise<Entry> {
    const { size } = await this.handle.stat()
    const source: Source = {
      size,
      rereadable: true,
      read: readFrom(this.file),
    }
    const written = this.writeBack(source, attributes)
    this.#committing = written.catch(() => undefined)
    return written
  }

  async close(): Promise<void> {
    // Writing back reads the file until it has finished.
    await this.#committing
    await this.handle.close()
    await this.spool.remove(basename(this.file))
  }
}
