/** A picture: zoomed, turned, followed by those beside it, and with what is known of it. */
import { ChevronLeft, ChevronRight, type LucideIcon } from 'lucide-preact'
import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import { Link } from 'wouter-preact'
import { addressOf } from '../../components/places.ts'
import { useSource } from '../../entries/source.ts'
import { textsOf } from '../../texts/texts.ts'
import type { ShownFile } from '../file-page.tsx'
import { useShowing, useSiblings } from '../siblings.ts'
import { useSteadyUrl } from '../steady-url.ts'
import { useFullScreen } from './full-screen.ts'
import { useGestures } from './gestures.ts'
import { PictureBar } from './picture-bar.tsx'
import { PictureDetails } from './picture-details.tsx'
import { PictureLayers } from './picture-layers.tsx'
import { usePictureKeys } from './picture-keys.ts'
import { usePreload } from './preload.ts'
import { mayMove, previewOf, savesData } from './preview.ts'
import { useSlideshow } from './slideshow.ts'
import { useZoom } from './use-zoom.ts'
import './picture-view.css'

const texts = textsOf('common', 'viewers', 'pictures')

interface PictureViewProps {
  readonly path: string
  readonly file: ShownFile
}

export default function PictureView({ path, file }: PictureViewProps) {
  const source = useSteadyUrl(path, useSource().previewUrl(path, file.sign))
  const preview = useSteadyUrl(path, previewOf(file) ?? '')
  const view = useRef<HTMLDivElement>(null)
  const stage = useRef<HTMLDivElement>(null)
  const { paths, at } = useSiblings(path, 'image')
  const show = useShowing()
  const [failed, setFailed] = useState<string>()
  const [swiped, setSwiped] = useState(0)
  const [showsDetails, setShowsDetails] = useState(false)
  const zoom = useZoom(path, stage)
  const { picture, isGuessed, placement, turns, fit } = zoom
  const hasFailed = failed === path
  const isReady = hasFailed || picture !== undefined

  const previous = at > 0 ? paths[at - 1] : undefined
  const next = at >= 0 ? paths[at + 1] : undefined
  const go = (to: string | undefined) => to !== undefined && void show(to)
  // After the last comes the first.
  const afterwards = paths.length > 1 ? (next ?? paths[0]) : undefined
  const slideshow = useSlideshow(path, isReady, afterwards === undefined ? undefined : () => go(afterwards))
  const fullScreen = useFullScreen(view)
  usePreload(afterwards, isReady)
  usePreload(previous, isReady)
  useFocus(path, stage)

  const controls = {
    zoom,
    slideshow,
    fullScreen,
    showsDetails,
    toggleDetails: () => setShowsDetails(!showsDetails),
    previous: () => go(previous),
    next: () => go(next),
  }
  usePictureKeys(view, controls)
  useGestures(stage, {
    onZoom: zoom.zoomBy,
    onMove: zoom.moveBy,
    onDoubleTap: zoom.toggle,
    swipes: placement.scale === 1,
    onSwiping: setSwiped,
    onSwipe: (way) => go(way === 1 ? next : previous),
  })

  return (
    <div ref={view} class="picture">
      <div class="picture-stage">
        <div
          ref={stage}
          class={placement.scale > 1 ? 'stage movable' : 'stage'}
          role="group"
          aria-label={file.name}
          tabIndex={0}
        >
          {hasFailed ? (
            <p class="loading">{texts.look.none}</p>
          ) : (
            <PictureLayers
              key={path}
              name={file.name}
              preview={preview}
              source={source}
              pixels={mayMove(file) ? Infinity : pixelsOf(zoom)}
              style={
                picture && fit !== undefined
                  ? {
                      width: `${picture.width * fit}px`,
                      height: `${picture.height * fit}px`,
                      // A picture that is turned may be wider than the space before.
                      maxWidth: 'none',
                      maxHeight: 'none',
                      transform:
                        `translate(${placement.x + swiped}px, ${placement.y}px) ` +
                        `rotate(${turns * 90}deg) scale(${placement.scale})`,
                    }
                  : undefined
              }
              onLoad={zoom.onLoad}
              onFail={() => setFailed(path)}
            />
          )}
        </div>
        {previous !== undefined && (
          <Beside way="previous" path={previous} Icon={ChevronLeft} onGo={() => go(previous)} />
        )}
        {next !== undefined && <Beside way="next" path={next} Icon={ChevronRight} onGo={() => go(next)} />}
        {paths.length > 1 && at >= 0 && <p class="picture-position">{texts.pictures.position(at + 1, paths.length)}</p>}
        <PictureBar {...controls} isZoomable={picture !== undefined && !hasFailed} />
      </div>
      {showsDetails && (
        <PictureDetails path={path} file={file} source={source} picture={isGuessed ? undefined : picture} />
      )}
    </div>
  )
}

/** More pixels in each pixel of CSS are hardly seen. */
const highestDensity = 2

/** Pixels of the screen that the longer side of the picture fills; 0 if that is not known, or of no importance. */
function pixelsOf({ picture, placement, fit }: ReturnType<typeof useZoom>): number {
  if (!picture || fit === undefined || (placement.scale === 1 && savesData())) return 0
  const density = Math.min(devicePixelRatio, highestDensity)
  return Math.max(picture.width, picture.height) * fit * placement.scale * density
}

interface BesideProps {
  readonly way: 'previous' | 'next'
  readonly path: string
  readonly Icon: LucideIcon
  readonly onGo: () => void
}

/** The link to the picture before or after the one that is shown. */
function Beside({ way, path, Icon, onGo }: BesideProps) {
  return (
    <Link
      class={way === 'previous' ? 'button icon previous' : 'button icon next'}
      href={addressOf(path)}
      aria-label={texts.look[way]}
      onClick={(event) => {
        event.preventDefault()
        onGo()
      }}
    >
      <Icon aria-hidden size={24} />
    </Link>
  )
}

/** The picture has the focus when nothing else has it, so that its keys can be used at once. */
function useFocus(path: string, stage: { readonly current: HTMLElement | null }): void {
  useLayoutEffect(() => {
    const { activeElement } = document
    if (activeElement === null || activeElement === document.body) stage.current?.focus({ preventScroll: true })
  }, [path, stage])
}
