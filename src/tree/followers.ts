/** All rows in memory that follow a folder which is moved or gets another spelling: folder rules, grants and shares. */
import type { Path } from '../base/path.js'
import type { PathMirror } from './path-mirror.js'

/** What the mirrors have in common. Each function does what that of `PathMirror` does, with all of them. */
type Mirror = Pick<
  PathMirror<{ readonly id: number; readonly path: Path }>,
  'hasWithin' | 'pathsWithin' | 'duringMove' | 'updateSpelling' | 'move' | 'markRemoved' | 'reload'
>

export class Followers implements Mirror {
  constructor(private readonly mirrors: readonly Mirror[]) {}

  hasWithin(path: Path): boolean {
    return this.mirrors.some((mirror) => mirror.hasWithin(path))
  }

  pathsWithin(path: Path): readonly Path[] {
    return [...new Set(this.mirrors.flatMap((mirror) => mirror.pathsWithin(path)))]
  }

  duringMove(from: Path, to: Path, mover?: symbol): (hasMoved: boolean) => void {
    const ends = this.mirrors.map((mirror) => mirror.duringMove(from, to, mover))
    return (hasMoved) => {
      for (const end of ends) end(hasMoved)
    }
  }

  async updateSpelling(path: Path): Promise<void> {
    for (const mirror of this.mirrors) await mirror.updateSpelling(path)
  }

  async move(from: Path, to: Path): Promise<void> {
    for (const mirror of this.mirrors) await mirror.move(from, to)
  }

  async markRemoved(top: Path, removed: readonly Path[]): Promise<void> {
    for (const mirror of this.mirrors) await mirror.markRemoved(top, removed)
  }

  async reload(): Promise<void> {
    for (const mirror of this.mirrors) await mirror.reload()
  }
}
