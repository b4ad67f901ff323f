/**
 * A file that is written aside, under a name that nobody is shown, until it takes its own. Until then the server removes it as soon as
 * it is closed, also when the connection breaks: nothing is left of an upload that was cut, unless somebody may go on with it.
 */
import { randomBytes } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import { StatusError } from './client/errors.js'
import type { FileId } from './client/messages.js'
import type { Share } from './client/share.js'
import { status } from './client/statuses.js'
import { isStatus } from './errors.js'

export class StagedFile {
  #isOpen = true

  private constructor(
    readonly share: Share,
    readonly wirePath: string,
    readonly id: FileId,
  ) {}

  /** One that is left may not be removed with its connection: then it stays until it is swept. */
  static async create(share: Share, wirePath: string, mayBeLeft = false): Promise<StagedFile> {
    const id = mayBeLeft ? (await share.open(wirePath, 'new')).id : await share.openGoing(wirePath)
    return new StagedFile(share, wirePath, id)
  }

  /** One that was left, of a size that `fits`; undefined for every other one, which goes. */
  static async reopen(
    share: Share,
    wirePath: string,
    fits: (size: number) => boolean,
  ): Promise<StagedFile | undefined> {
    const opened = await share.open(wirePath, 'staged').catch((error: unknown) => {
      if (error instanceof StatusError) return undefined
      throw error
    })
    if (!opened) return undefined
    const staged = new StagedFile(share, wirePath, opened.id)
    if (fits(opened.size)) return staged
    await staged.discard()
    return undefined
  }

  /** Takes the name `to`; `replaces` the file that has it. Rejects with what the server says. */
  async publish(to: string, replaces: boolean, modified: Date | undefined): Promise<void> {
    await this.share.keepFile(this.id, modified)
    await renameOver(this.share, this.id, to, replaces)
    this.#isOpen = false
    await this.share.closeFile(this.id)
  }

  /** Closes it: it stays, if it may. Never rejects. */
  async leave(): Promise<void> {
    if (!this.#isOpen) return
    this.#isOpen = false
    await this.share.closeFile(this.id).catch(() => undefined)
  }

  /** Resolves to whether surely nothing is left. Never rejects. */
  async discard(): Promise<boolean> {
    if (!this.#isOpen) return true
    this.#isOpen = false
    try {
      await this.share.setGoing(this.id)
      await this.share.closeFile(this.id)
      return true
    } catch {
      return false
    }
  }
}

/** Milliseconds before another try: most files that are open are closed soon, above all those that have just taken their name. */
const pauses = [5, 20, 80] as const

/**
 * Gives an open file another name. Where a file has that name and is open elsewhere, servers refuse to replace it; if it stays open, it
 * steps aside, and goes when those who have it open close it.
 */
async function renameOver(share: Share, id: FileId, wirePath: string, replaces: boolean): Promise<void> {
  for (const pause of pauses) {
    try {
      await share.rename(id, wirePath, replaces)
      return
    } catch (error) {
      if (!replaces || !isInTheWay(error)) throw error
    }
    await setTimeout(pause)
  }
  await replaceOpen(share, id, wirePath)
}

/** The same of whatever has a path. */
export async function renameAt(share: Share, from: string, to: string, replaces: boolean): Promise<void> {
  const { id } = await share.open(from, 'changing')
  try {
    await renameOver(share, id, to, replaces)
  } finally {
    await share.closeFile(id).catch(() => undefined)
  }
}

function isInTheWay(error: unknown): boolean {
  return isStatus(error, status.accessDenied, status.sharingViolation, status.deletePending)
}

/**
 * Replaces a file that somebody has open: it gets another name, and goes when it is closed. That name is one that is shown: whatever
 * happens, nobody has to look for the file.
 */
async function replaceOpen(share: Share, id: FileId, wirePath: string): Promise<void> {
  const old = await share.open(wirePath, 'changing')
  try {
    if (old.isFolder) throw new StatusError(status.fileIsADirectory)
    await share.rename(old.id, `${wirePath}~replaced-${randomBytes(4).toString('hex')}`, false)
    try {
      await share.rename(id, wirePath, true)
    } catch (error) {
      await share.rename(old.id, wirePath, false).catch(async (taken: unknown) => {
        // Somebody else's new file has the name by now: the old one is replaced all the same.
        if (!isStatus(taken, status.objectNameCollision)) throw taken
        await share.setGoing(old.id)
      })
      throw error
    }
    await share.setGoing(old.id)
  } finally {
    await share.closeFile(old.id).catch(() => undefined)
  }
}
