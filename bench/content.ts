/** Files to transfer, and names for them. */
import { randomBytes } from 'node:crypto'
import { open, rm } from 'node:fs/promises'

/** Of small files. */
export const smallContent = Buffer.alloc(1024, 'tide')

let names = 0

/**
 * A name that was not used in this run: some peers remember for minutes what they once saw. Small files stay until the end of the
 * run: ext4 passes over the inodes that were freed a moment ago, one by one, and the next writer would pay for that.
 */
export function newName(): string {
  return `new-${++names}`
}

/** A file of `size` bytes that do not compress within a block of 4 MiB. */
export async function writeContent(path: string, size: number): Promise<void> {
  const block = randomBytes(4 * 2 ** 20)
  const file = await open(path, 'w')
  try {
    for (let left = size; left > 0; left -= block.length) {
      await file.write(block, 0, Math.min(block.length, left))
    }
    // What is still on its way to the disk would be paid for by the first measurement.
    await file.sync()
  } finally {
    await file.close()
  }
}

/**
 * Writes and removes so many bytes, so that the memory they take in the page cache is at hand. Without it, whoever is measured
 * first pays for memory that the machine's host had taken back, and those after find it free.
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
