/** A walk through a tree: a few members at a time, the deepest first, so that few folders are open at once. */

/** Members that are visited at once. */
const atOnce = 8

/** What a walk does with what it comes to. */
export interface Visits<Member, Folder> {
  /** Does a member, and resolves to whether that was done; or opens it, where it is a folder whose members come first. */
  visit(member: Member, above: Folder | undefined): Promise<boolean | Opened<Member, Folder>>
  /** All members of a folder have been visited. `done`: all of them were done. Resolves to whether the folder is. */
  finish(folder: Folder, done: boolean): Promise<boolean>
  /** One of the two rejected, and that member is not done. What is thrown here ends the walk. */
  failed(member: Member, error: unknown): void
}

export interface Opened<Member, Folder> {
  readonly folder: Folder
  readonly members: Iterable<Member>
  /** How many they are. */
  readonly count: number
}

interface OpenFolder<Member, Folder> {
  readonly folder: Folder
  /** The folder as a member of the one above. */
  readonly member: Member
  readonly above: OpenFolder<Member, Folder> | undefined
  /** Those that nobody has begun with. */
  readonly waiting: Iterator<Member>
  /** Members that are not done with yet. */
  left: number
  done: boolean
}

export class TreeWalk<Member, Folder> {
  /** With members that nobody has begun with, or that have just run out of them. */
  readonly #folders: OpenFolder<Member, Folder>[] = []
  #busy = 0
  #changed: Promise<void> = Promise.resolve()
  #tellChange: () => void = () => undefined
  #gaveUp: { readonly reason: unknown } | undefined
  #isDone = false

  constructor(private readonly visits: Visits<Member, Folder>) {}

  /** Resolves to whether all of it was done. */
  async run(top: Member): Promise<boolean> {
    this.#change()
    await this.#visit(top, undefined)
    // All of them are waited for: nothing of this goes on behind the caller's back.
    await Promise.all(Array.from({ length: atOnce }, () => this.#worker()))
    if (this.#gaveUp) throw this.#gaveUp.reason
    return this.#isDone
  }

  async #worker(): Promise<void> {
    while (!this.#gaveUp) {
      const next = this.#next()
      if (next) {
        this.#busy += 1
        await this.#visit(next.member, next.above)
        this.#busy -= 1
        this.#change()
      } else if (this.#busy > 0) {
        await this.#changed
      } else {
        return
      }
    }
  }

  #next(): { readonly member: Member; readonly above: OpenFolder<Member, Folder> } | undefined {
    for (let above = this.#folders.at(-1); above; above = this.#folders.at(-1)) {
      const next = above.waiting.next()
      if (next.done !== true) return { member: next.value, above }
      this.#folders.pop()
    }
    return undefined
  }

  /** Whoever found nothing to do looks again. */
  #change(): void {
    this.#tellChange()
    this.#changed = new Promise((resolve) => (this.#tellChange = resolve))
  }

  async #visit(member: Member, above: OpenFolder<Member, Folder> | undefined): Promise<void> {
    const visited = await this.#attempt(member, () => this.visits.visit(member, above?.folder))
    if (typeof visited === 'boolean') {
      await this.#memberDone(above, visited)
      return
    }
    const { folder, members, count } = visited
    const open = { folder, member, above, waiting: members[Symbol.iterator](), left: count, done: true }
    if (count === 0) {
      await this.#finish(open)
      return
    }
    this.#folders.push(open)
    this.#change()
  }

  async #finish({ folder, member, above, done }: OpenFolder<Member, Folder>): Promise<void> {
    await this.#memberDone(above, await this.#attempt(member, () => this.visits.finish(folder, done)))
  }

  async #memberDone(above: OpenFolder<Member, Folder> | undefined, done: boolean): Promise<void> {
    if (!above) {
      this.#isDone = done
      return
    }
    above.left -= 1
    above.done &&= done
    if (above.left === 0 && !this.#gaveUp) await this.#finish(above)
  }

  async #attempt<T>(member: Member, work: () => Promise<T>): Promise<T | false> {
    try {
      return await work()
    } catch (error) {
      try {
        this.visits.failed(member, error)
      } catch (reason) {
        this.#gaveUp ??= { reason }
      }
      return false
    }
  }
}
