/** A picture as it is loaded: its preview first, and the picture itself when the preview is not sharp enough. */
import type { CSSProperties } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { textsOf } from '../../texts/texts.ts'
import type { Size } from './zoom.ts'
import './picture-layers.css'

const texts = textsOf('pictures')

/** How many pixels of the screen one pixel of a preview may fill. */
const sharpEnough = 1.5

interface PictureLayersProps {
  readonly name: string
  /** The URL of the preview; empty if there is none. */
  readonly preview: string
  /** The URL of the picture. */
  readonly source: string
  /** Pixels of the screen that the longer side of the picture fills. Infinite: the preview is never enough. */
  readonly pixels: number
  readonly style: CSSProperties | undefined
  /** Called with the size of the preview when it is shown, and with that of the picture when it is. */
  readonly onLoad: (size: Size, isPreview: boolean) => void
  /** Neither can be shown. */
  readonly onFail: () => void
}

type State = 'loading' | 'shown' | 'failed'

/** Needs a `key` of its own for each picture. */
export function PictureLayers({ name, preview, source, pixels, style, onLoad, onFail }: PictureLayersProps) {
  const [previewState, setPreviewState] = useState<State>(preview === '' ? 'failed' : 'loading')
  const [sourceState, setSourceState] = useState<State>('loading')
  const previewSide = useRef(Infinity)
  const isNeeded = useRef(false)
  isNeeded.current ||= previewState === 'failed' || pixels === Infinity || pixels > previewSide.current * sharpEnough
  const hasFailed = previewState === 'failed' && sourceState === 'failed'
  useEffect(() => {
    if (hasFailed) onFail()
  }, [hasFailed])

  const isArriving = isNeeded.current && sourceState === 'loading' && previewState !== 'failed'
  return (
    <>
      {previewState !== 'failed' && sourceState !== 'shown' && (
        <img
          class="shown"
          src={preview}
          alt={name}
          draggable={false}
          style={style}
          onLoad={({ currentTarget }) => {
            const size = sizeOf(currentTarget)
            previewSide.current = Math.max(size.width, size.height)
            setPreviewState('shown')
            onLoad(size, true)
          }}
          onError={() => setPreviewState('failed')}
        />
      )}
      {isNeeded.current && sourceState !== 'failed' && (
        <img
          class={isArriving ? 'arriving' : 'shown'}
          src={source}
          alt={name}
          draggable={false}
          style={style}
          onLoad={({ currentTarget }) => {
            const show = () => {
              if (!currentTarget.isConnected) return
              setSourceState('shown')
              onLoad(sizeOf(currentTarget), false)
            }
            // What can be painted at once takes the place of the preview.
            if (isArriving) currentTarget.decode().then(show, show)
            else show()
          }}
          onError={() => setSourceState('failed')}
        />
      )}
      {isArriving && previewState === 'shown' && (
        <p class="picture-arriving" role="status">
          {texts.pictures.arriving}
        </p>
      )}
    </>
  )
}

function sizeOf({ naturalWidth: width, naturalHeight: height }: HTMLImageElement): Size {
  // A drawing may have no size of its own.
  return width > 0 && height > 0 ? { width, height } : { width: 512, height: 512 }
}
