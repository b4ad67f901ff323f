/** The subtitles beside a film: which there are, and showing one of them. */
import { useQuery } from '@tanstack/preact-query'
import type { RefObject } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { keys } from '../../api/keys.ts'
import { joined, parentOf } from '../../components/places.ts'
import { useSource } from '../../entries/source.ts'
import { languageName } from '../../texts/format.ts'
import { languageInUse } from '../../texts/language.ts'
import { textsOf } from '../../texts/texts.ts'
import { firstBytes, textOf } from '../bytes.ts'
import type { ShownFile } from '../file-page.tsx'
import { cuesIn, escaped, longestSubtitles, subtitleExtensions } from './cues.ts'

const texts = textsOf('media')

export interface Subtitles {
  readonly name: string
  readonly sign: string
  /** What is between the name of the film and the extension, such as `en` or `zh-CN.forced`; empty for nothing. */
  readonly tag: string
  readonly extension: string
}

/** The files `FILM.EXTENSION` and `FILM.TAG.EXTENSION`, in their order. */
export function subtitlesOf({ name: film, related }: Pick<ShownFile, 'name' | 'related'>): readonly Subtitles[] {
  const stem = film.replace(/(?<=.)\.[^.]*$/s, '')
  return (related ?? []).flatMap(({ name, sign, is_dir: isFolder, unreadable }) => {
    const end = name.lastIndexOf('.')
    const extension = name.slice(end + 1).toLowerCase()
    const tag = name.slice(stem.length, end)
    const isOfFilm = name.startsWith(stem) && end >= stem.length && (tag === '' || tag.startsWith('.'))
    if (isFolder || unreadable === true || !isOfFilm || !subtitleExtensions.includes(extension)) return []
    return [{ name, sign, tag: tag.slice(1), extension }]
  })
}

/** The name of the language and what else the tag says; the extension if it says nothing. */
export function labelOf({ tag, extension }: Subtitles): string {
  const [language = '', ...rest] = tag.split('.')
  return [language && languageName(language), ...rest].filter(Boolean).join(' ') || extension.toUpperCase()
}

/** What the user has chosen last: whether subtitles are shown at all. */
const kept = 'subtitles'

/** The index of the subtitles that are shown at first; -1: none. Those in the language of the user, else the first. */
function firstOf(all: readonly Subtitles[]): number {
  if (all.length === 0 || localStorage.getItem(kept) === 'off') return -1
  const [language = ''] = languageInUse.peek().locale.split('-')
  return Math.max(
    0,
    all.findIndex(({ tag }) => tag.toLowerCase().split(/[-.]/)[0] === language),
  )
}

/** Shows subtitles of the film in the element. Its native controls have them too. */
export function useSubtitles(video: RefObject<HTMLMediaElement>, path: string, file: ShownFile) {
  const { previewUrl } = useSource()
  const all = subtitlesOf(file)
  const [choice, setChoice] = useState<{ readonly path: string; readonly index: number }>()
  const index = choice?.path === path ? choice.index : firstOf(all)
  const shown = all[index]
  const from = shown && joined(parentOf(path), shown.name)
  const { data: cues, error } = useQuery({
    queryKey: keys.subtitles(from ?? ''),
    queryFn: async ({ signal }) => {
      if (!shown || from === undefined) return []
      return cuesIn(shown.name, textOf(await firstBytes(previewUrl(from, shown.sign), longestSubtitles, signal)))
    },
    enabled: from !== undefined,
    staleTime: Infinity,
    retry: false,
  })
  useEffect(() => {
    const { current } = video
    if (!current || !cues || !shown || from === undefined) return
    // The interface has no way to remove a track: the one that there is gets other cues.
    const track = current.textTracks[0] ?? current.addTextTrack('subtitles', texts.media.subtitles)
    // The cues of a track that is not shown are not accessible.
    track.mode = 'showing'
    for (const { start, end, text } of cues) track.addCue(new VTTCue(start, end, escaped(text)))
    return () => {
      // From the last one, which moves none of the others.
      for (const cue of [...(track.cues ?? [])].reverse()) track.removeCue(cue)
      track.mode = 'disabled'
    }
  }, [video, cues, from])
  return {
    all,
    index,
    error,
    choose: (index: number) => {
      localStorage.setItem(kept, index < 0 ? 'off' : 'on')
      setChoice({ path, index })
    },
  }
}
