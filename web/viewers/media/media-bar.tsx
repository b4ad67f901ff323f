/** The buttons below a film or sound. */
import {
  Captions,
  ExternalLink,
  ListMusic,
  ListVideo,
  Repeat as RepeatSymbol,
  Repeat1,
  Shuffle,
  SkipBack,
  SkipForward,
  type LucideIcon,
} from 'lucide-preact'
import type { RefObject } from 'preact'
import { useState } from 'preact/hooks'
import { Loaded, part } from '../../components/loaded.tsx'
import { textsOf } from '../../texts/texts.ts'
import type { ShownFile } from '../file-page.tsx'
import { repeats, type Repeat } from './play-order.ts'
import { labelOf, useSubtitles } from './subtitles.ts'
import './media-bar.css'

const texts = textsOf('media')

const OpenWith = part(async () => ({ default: (await import('./open-with.tsx')).OpenWith }))

interface MediaBarProps {
  readonly kind: 'video' | 'audio'
  readonly path: string
  readonly file: ShownFile
  readonly isPlayable: boolean
  readonly element: RefObject<HTMLMediaElement>
  readonly onPrevious: (() => void) | undefined
  readonly onNext: (() => void) | undefined
  readonly isShuffled: boolean
  readonly onShuffle: () => void
  readonly repeat: Repeat
  readonly onRepeat: (repeat: Repeat) => void
  readonly hasList: boolean
  readonly showsList: boolean
  readonly onList: () => void
}

export function MediaBar(props: MediaBarProps) {
  const { kind, path, file, isPlayable, hasList, isShuffled, repeat, showsList } = props
  const { media } = texts
  const [isOpening, setOpening] = useState(false)
  const nextRepeat = repeats[(repeats.indexOf(repeat) + 1) % repeats.length] ?? 'none'
  return (
    <div class="toolbar media-bar" role="toolbar" aria-label={media.tools}>
      {hasList && (
        <>
          <Tool label={media.previous} Icon={SkipBack} onClick={props.onPrevious} />
          <Tool label={media.next} Icon={SkipForward} onClick={props.onNext} />
        </>
      )}
      {kind === 'audio' && hasList && (
        <Tool label={media.shuffle} Icon={Shuffle} pressed={isShuffled} onClick={props.onShuffle} />
      )}
      {kind === 'audio' && (
        <Tool
          label={media.repeat[repeat]}
          Icon={repeat === 'one' ? Repeat1 : RepeatSymbol}
          lit={repeat !== 'none'}
          onClick={() => props.onRepeat(nextRepeat)}
        />
      )}
      {kind === 'video' && isPlayable && <SubtitlesField path={path} file={file} element={props.element} />}
      <span class="space" />
      <button type="button" class="quiet" onClick={() => setOpening(true)}>
        <ExternalLink aria-hidden size={16} /> <span class="text">{media.openWith}</span>
      </button>
      {hasList && (
        <Tool
          label={media.list}
          Icon={kind === 'audio' ? ListMusic : ListVideo}
          pressed={showsList}
          onClick={props.onList}
        />
      )}
      {isOpening && (
        <Loaded quiet>
          <OpenWith path={path} file={file} onClose={() => setOpening(false)} />
        </Loaded>
      )}
    </div>
  )
}

interface SubtitlesFieldProps {
  readonly path: string
  readonly file: ShownFile
  readonly element: RefObject<HTMLMediaElement>
}

function SubtitlesField({ path, file, element }: SubtitlesFieldProps) {
  const { all, index, error, choose } = useSubtitles(element, path, file)
  if (all.length === 0) return null
  return (
    <>
      <label class="check">
        <Captions aria-hidden size={20} />
        <select
          aria-label={texts.media.subtitles}
          value={index}
          onChange={({ currentTarget }) => choose(Number(currentTarget.value))}
        >
          <option value={-1}>{texts.media.noSubtitles}</option>
          {all.map((each, index) => (
            <option key={each.name} value={index}>
              {labelOf(each)}
            </option>
          ))}
        </select>
      </label>
      {error && (
        <span role="alert" class="error">
          {texts.media.subtitlesFailed}
        </span>
      )}
    </>
  )
}

interface ToolProps {
  readonly label: string
  readonly Icon: LucideIcon
  readonly pressed?: boolean
  /** Whether it looks pressed: its label says what it does. */
  readonly lit?: boolean
  /** Undefined: nothing can be done now. */
  readonly onClick: (() => void) | undefined
}

function Tool({ label, Icon, pressed, lit = pressed === true, onClick }: ToolProps) {
  return (
    <button
      type="button"
      class={lit ? 'quiet icon lit' : 'quiet icon'}
      aria-label={label}
      aria-pressed={pressed}
      aria-disabled={onClick === undefined}
      title={label}
      onClick={onClick}
    >
      <Icon aria-hidden size={20} />
    </button>
  )
}
