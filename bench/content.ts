/** The content and names of files to transfer. */
import { randomBytes } from 'node:crypto'
import { open, rm } from 'node:fs/promises'

/** The content of small files. */
export const smallContent = Buffer.alloc(1024, 'tide')

let names = 0

/**
 * A name that was not used in this run, because some peers cache entries for minutes. Small files are not deleted
 * before the end of the run: ext4 skips recently freed inodes one by one, which slows down the next writer.
 */
export function newName(): string {
  return `new-${++names}`
}

/** Writes a file of `size` bytes that are incompressible within a block of 4 MiB. */
export async function writeContent(path: string, size: number): Promise<void> {
  const block = randomBytes(4 * 2 ** 20)
  const file = await open(path, 'w')
  try {
    for (let left = size; left > 0; left -= block.length) {
      await file.write(block, 0, Math.min(block.length, left))
    }
    // Otherwise the write-back would slow down the first measurement.
    await file.sync()
  } finally {
    await file.close()
  }
}

/**
 * Writes and deletes `size` bytes, so that memory for the page cache is available. Otherwise a virtual machine has to
 * request it from its host during the first measurement only.
 */
export async function warmPageCache(path: string, size: number): Promise<void> {
  const block = Buffer.alloc(4 * 2 ** 20, 1)
  const file = await open(path, 'w')
  try {
    for (let left = size; left > 0; left -= block.length) await file.write(block, 0, Math.min(block.length, left))
  } finally {
    await file.close()
    await rm(path)
  }
}
