/** A concurrent walk through a tree, a few members at a time, depth first, so that few folders are open. */

/** Maximum concurrent visits. */
const concurrency = 8

/** The operations that a walk performs on each member. */
export interface TreeVisitor<Member, Folder> {
  /**
   * Processes a member, and resolves to whether it was completed; for a folder, resolves to its members, which are
   * visited first.
   */
  visit(member: Member, parent: Folder | undefined): Promise<boolean | EnteredFolder<Member, Folder>>
  /**
   * Called when all members of a folder were visited. `done`: all of them were completed. Resolves to whether the
   * folder is completed.
   */
  finish(folder: Folder, done: boolean): Promise<boolean>
  /** Called when `visit` or `finish` rejected; the member is not completed. A rejection ends the walk. */
  failed(member: Member, error: unknown): Promise<void>
}

export interface EnteredFolder<Member, Folder> {
  readonly folder: Folder
  readonly members: Iterable<Member>
  /** The number of members. */
  readonly count: number
}

interface OpenFolder<Member, Folder> {
  readonly folder: Folder
  /** The folder as a member of its parent. */
  readonly member: Member
  readonly parent: OpenFolder<Member, Folder> | undefined
  /** Members whose visit has not started. */
  readonly unvisited: Iterator<Member>
  /** Number of members that are not finished. */
  pending: number
  done: boolean
}

export class TreeWalk<Member, Folder> {
  /** Folders with unvisited members, or whose last one was just taken. */
  readonly #openFolders: OpenFolder<Member, Folder>[] = []
  #running = 0
  #changed: Promise<void> = Promise.resolve()
  #notifyWaiters: () => void = () => undefined
  #failure: { readonly reason: unknown } | undefined
  #isDone = false

  constructor(private readonly visitor: TreeVisitor<Member, Folder>) {}

  /** Resolves to whether the whole tree was completed. */
  async run(top: Member): Promise<boolean> {
    this.#signalChange()
    await this.#visit(top, undefined)
    // Waits for all of them, so that no work continues after this call has settled.
    await Promise.all(Array.from({ length: concurrency }, () => this.#worker()))
    if (this.#failure) throw this.#failure.reason
    return this.#isDone
  }

  async #worker(): Promise<void> {
    while (!this.#failure) {
      const next = this.#next()
      if (next) {
        this.#running += 1
        await this.#visit(next.member, next.parent)
        this.#running -= 1
        this.#signalChange()
      } else if (this.#running > 0) {
        await this.#changed
      } else {
        return
      }
    }
  }

  #next(): { readonly member: Member; readonly parent: OpenFolder<Member, Folder> } | undefined {
    for (let parent = this.#openFolders.at(-1); parent; parent = this.#openFolders.at(-1)) {
      const next = parent.unvisited.next()
      if (next.done !== true) return { member: next.value, parent }
      this.#openFolders.pop()
    }
    return undefined
  }

  /** Wakes the workers that found no member to visit. */
  #signalChange(): void {
    this.#notifyWaiters()
    this.#changed = new Promise((resolve) => (this.#notifyWaiters = resolve))
  }

  async #visit(member: Member, parent: OpenFolder<Member, Folder> | undefined): Promise<void> {
    const visited = await this.#attempt(member, () => this.visitor.visit(member, parent?.folder))
    if (typeof visited === 'boolean') {
      await this.#memberDone(parent, visited)
      return
    }
    const { folder, members, count } = visited
    const open = { folder, member, parent, unvisited: members[Symbol.iterator](), pending: count, done: true }
    if (count === 0) {
      await this.#finish(open)
      return
    }
    this.#openFolders.push(open)
    this.#signalChange()
  }

  async #finish({ folder, member, parent, done }: OpenFolder<Member, Folder>): Promise<void> {
    await this.#memberDone(parent, await this.#attempt(member, () => this.visitor.finish(folder, done)))
  }

  async #memberDone(parent: OpenFolder<Member, Folder> | undefined, done: boolean): Promise<void> {
    if (!parent) {
      this.#isDone = done
      return
    }
    parent.pending -= 1
    parent.done &&= done
    if (parent.pending === 0 && !this.#failure) await this.#finish(parent)
  }

  async #attempt<T>(member: Member, work: () => Promise<T>): Promise<T | false> {
    try {
      return await work()
    } catch (error) {
      try {
        await this.visitor.failed(member, error)
      } catch (reason) {
        this.#failure ??= { reason }
      }
      return false
    }
  }
}
