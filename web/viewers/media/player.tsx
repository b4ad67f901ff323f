/** Plays the films and sounds of a list, one after the other. */
import { useRef, useState } from 'preact/hooks'
import { textsOf } from '../../texts/texts.ts'
import type { ShownFile } from '../file-page.tsx'
import { MediaBar } from './media-bar.tsx'
import { around, shuffled, type Repeat } from './play-order.ts'
import { Playing } from './playing.tsx'
import { QueueList } from './queue-list.tsx'
import './player.css'

const texts = textsOf('viewers', 'media')

/** What is played one after the other. */
export interface PlayList {
  readonly paths: readonly string[]
  /** The index of what is played; -1 until the list is known. */
  readonly at: number
  /** The folder of the list: its own entries are shown by their names. */
  readonly folder: string
  readonly go: (index: number) => void
}

interface PlayerProps {
  readonly kind: 'video' | 'audio'
  readonly path: string
  readonly file: ShownFile
  /** Why nothing can be played at this place of the list. */
  readonly problem?: string | undefined
  readonly list: PlayList
}

export function Player({ kind, path, file, problem, list }: PlayerProps) {
  const element = useRef<HTMLMediaElement>(null)
  /** Whether the next one is to play by itself: the user has not stopped this one. */
  const goesOn = useRef(false)
  const [order, setOrder] = useState<readonly number[]>()
  const [repeat, setRepeat] = useState<Repeat>('none')
  const [failed, setFailed] = useState<string>()
  const [showsList, setShowsList] = useState(true)
  const { paths, at, folder } = list
  const { previous, next } = around(at, paths.length, order?.length === paths.length ? order : undefined, repeat)
  const trouble = problem ?? (failed === path ? texts.look.none : undefined)

  function go(index: number | undefined): void {
    if (index === undefined) return
    const { current } = element
    goesOn.current = current === null || !current.paused || current.ended
    list.go(index)
  }
  function onEnded(): void {
    const { current } = element
    if (repeat === 'one' || next === at || (next === undefined && repeat === 'all')) {
      if (current) void current.play()
    } else go(next)
  }
  return (
    <div class="media">
      <div class="media-main">
        {trouble === undefined ? (
          <Playing
            kind={kind}
            path={path}
            file={file}
            element={element}
            goesOn={goesOn}
            onEnded={onEnded}
            onFailed={() => setFailed(path)}
            onPrevious={previous === undefined ? undefined : () => go(previous)}
            onNext={next === undefined ? undefined : () => go(next)}
          />
        ) : (
          <p class="media-problem" role="status">
            {trouble}
          </p>
        )}
        <MediaBar
          kind={kind}
          path={path}
          file={file}
          isPlayable={trouble === undefined}
          element={element}
          onPrevious={previous === undefined ? undefined : () => go(previous)}
          onNext={next === undefined ? undefined : () => go(next)}
          isShuffled={order !== undefined}
          onShuffle={() => setOrder(order ? undefined : shuffled(paths.length, at))}
          repeat={repeat}
          onRepeat={setRepeat}
          hasList={paths.length > 1}
          showsList={showsList}
          onList={() => setShowsList(!showsList)}
        />
      </div>
      {showsList && paths.length > 1 && <QueueList paths={paths} at={at} folder={folder} onChoose={go} />}
    </div>
  )
}
