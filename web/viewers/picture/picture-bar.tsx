/** The buttons of the viewer of pictures. */
import {
  Info,
  Maximize,
  Minimize,
  Pause,
  Play,
  RotateCcw,
  RotateCw,
  Shrink,
  ZoomIn,
  ZoomOut,
  type LucideIcon,
} from 'lucide-preact'
import { percent } from '../../texts/format.ts'
import { textsOf } from '../../texts/texts.ts'
import type { useFullScreen } from './full-screen.ts'
import { step } from './picture-keys.ts'
import { intervals, type useSlideshow } from './slideshow.ts'
import type { useZoom } from './use-zoom.ts'
import './picture-bar.css'

const texts = textsOf('common', 'pictures')

/** What can be done with a picture, by buttons and keys. */
export interface PictureControls {
  readonly zoom: ReturnType<typeof useZoom>
  readonly slideshow: ReturnType<typeof useSlideshow>
  readonly fullScreen: ReturnType<typeof useFullScreen>
  readonly showsDetails: boolean
  readonly toggleDetails: () => void
  readonly previous: () => void
  readonly next: () => void
}

interface PictureBarProps extends PictureControls {
  readonly isZoomable: boolean
}

export function PictureBar({ zoom, slideshow, fullScreen, showsDetails, toggleDetails, isZoomable }: PictureBarProps) {
  const { pictures } = texts
  const { placement, fit, isGuessed } = zoom
  return (
    <div class="picture-bar" role="toolbar" aria-label={pictures.tools}>
      {isZoomable && (
        <>
          <Tool
            label={pictures.smaller}
            shortcut="-"
            Icon={ZoomOut}
            disabled={placement.scale === 1}
            onClick={() => zoom.zoomBy(1 / step)}
          />
          <button
            type="button"
            class="quiet picture-scale"
            aria-keyshortcuts="0"
            title={texts.withNote(pictures.fit, '0')}
            onClick={zoom.fitAgain}
          >
            {isGuessed ? <Shrink aria-hidden size={20} /> : fit !== undefined && percent(fit * placement.scale)}
            <span class="for-screen-readers">{pictures.fit}</span>
          </button>
          <Tool label={pictures.larger} shortcut="+" Icon={ZoomIn} onClick={() => zoom.zoomBy(step)} />
          <Tool label={pictures.turnLeft} shortcut="Shift+R" Icon={RotateCcw} rare onClick={() => zoom.turn(-1)} />
          <Tool label={pictures.turnRight} shortcut="R" Icon={RotateCw} onClick={() => zoom.turn(1)} />
        </>
      )}
      {slideshow.toggle && (
        <Tool
          label={slideshow.isPlaying ? pictures.pause : pictures.play}
          shortcut="S"
          Icon={slideshow.isPlaying ? Pause : Play}
          onClick={slideshow.toggle}
        />
      )}
      {slideshow.isPlaying && (
        <select
          aria-label={pictures.interval}
          value={slideshow.seconds}
          onChange={({ currentTarget }) => slideshow.choose(Number(currentTarget.value))}
        >
          {intervals.map((seconds) => (
            <option key={seconds} value={seconds}>
              {pictures.seconds(seconds)}
            </option>
          ))}
        </select>
      )}
      <Tool label={pictures.details} shortcut="I" Icon={Info} pressed={showsDetails} onClick={toggleDetails} />
      {fullScreen.toggle && (
        <Tool
          label={fullScreen.isFull ? pictures.leaveFullScreen : pictures.fullScreen}
          shortcut="F"
          Icon={fullScreen.isFull ? Minimize : Maximize}
          onClick={fullScreen.toggle}
        />
      )}
    </div>
  )
}

interface ToolProps {
  readonly label: string
  readonly shortcut: string
  readonly Icon: LucideIcon
  readonly pressed?: boolean
  readonly disabled?: boolean
  /** Left out on narrow screens. */
  readonly rare?: boolean
  readonly onClick: () => void
}

function Tool({ label, shortcut, Icon, pressed, disabled = false, rare = false, onClick }: ToolProps) {
  return (
    <button
      type="button"
      class={rare ? 'quiet icon rare' : 'quiet icon'}
      aria-label={label}
      aria-keyshortcuts={shortcut}
      aria-pressed={pressed}
      aria-disabled={disabled}
      title={texts.withNote(label, shortcut)}
      onClick={onClick}
    >
      <Icon aria-hidden size={20} />
    </button>
  )
}
