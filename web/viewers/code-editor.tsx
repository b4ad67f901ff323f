/** CodeMirror, with the language of the file's name. */
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands'
import { HighlightStyle, LanguageDescription, syntaxHighlighting } from '@codemirror/language'
import { languages } from '@codemirror/language-data'
import { highlightSelectionMatches, searchKeymap } from '@codemirror/search'
import { Compartment, EditorState } from '@codemirror/state'
import { drawSelection, EditorView, keymap, lineNumbers, showPanel } from '@codemirror/view'
import { tags } from '@lezer/highlight'
import { useEffect, useRef } from 'preact/hooks'
import { textsOf } from '../texts/texts.ts'
import './code-editor.css'

const texts = textsOf('viewers')

interface CodeEditorProps {
  readonly name: string
  /** The text at first. */
  readonly text: string
  readonly readOnly: boolean
  readonly onText: (text: string) => void
}

const theme = EditorView.theme({
  '&': { height: '100%', color: 'var(--text)', backgroundColor: 'var(--ground)' },
  '.cm-gutters': { color: 'var(--muted)', backgroundColor: 'var(--raised)', border: 'none' },
  '.cm-panels': { color: 'var(--muted)', backgroundColor: 'var(--raised)' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '.cm-selectionBackground, &.cm-focused .cm-selectionBackground': { backgroundColor: 'var(--selected) !important' },
})

/** Colors with a contrast of at least 4.5 to the ground, in light and dark. */
const colors = HighlightStyle.define([
  { tag: [tags.keyword, tags.modifier, tags.operatorKeyword], color: 'light-dark(#7a1fa2, #d4a5f5)' },
  { tag: [tags.string, tags.regexp, tags.special(tags.string)], color: 'light-dark(#a31515, #f0a58f)' },
  { tag: [tags.number, tags.bool, tags.null, tags.atom], color: 'light-dark(#0b6e4f, #8fd8b6)' },
  { tag: [tags.comment, tags.meta], color: 'var(--muted)', fontStyle: 'italic' },
  { tag: [tags.definition(tags.variableName), tags.propertyName, tags.attributeName], color: 'var(--accent)' },
  { tag: [tags.typeName, tags.className, tags.tagName], color: 'light-dark(#00627a, #7fd0e6)' },
  { tag: tags.heading, fontWeight: 'bold' },
  { tag: tags.strong, fontWeight: 'bold' },
  { tag: tags.emphasis, fontStyle: 'italic' },
  { tag: tags.link, textDecoration: 'underline' },
  { tag: tags.invalid, color: 'var(--danger)' },
])

export function CodeEditor({ name, text, readOnly, onText }: CodeEditorProps) {
  const place = useRef<HTMLDivElement>(null)
  const handler = useRef(onText)
  handler.current = onText

  useEffect(() => {
    if (!place.current) return
    // In a shadow tree CodeMirror adopts its style sheets, which the policy of the page allows; a style element it does
    // not.
    const root = place.current.shadowRoot ?? place.current.attachShadow({ mode: 'open' })
    const language = new Compartment()
    const view = new EditorView({
      root,
      parent: root,
      state: EditorState.create({
        doc: text,
        extensions: [
          lineNumbers(),
          history(),
          drawSelection(),
          highlightSelectionMatches(),
          syntaxHighlighting(colors),
          language.of([]),
          EditorState.readOnly.of(readOnly),
          EditorState.lineSeparator.of(lineBreakOf(text)),
          EditorView.contentAttributes.of({ 'aria-label': name, ...(!readOnly && { 'aria-describedby': hintId }) }),
          readOnly ? [] : showPanel.of(hint),
          EditorView.lineWrapping,
          theme,
          keymap.of([...searchKeymap, ...historyKeymap, ...defaultKeymap, indentWithTab]),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) handler.current(update.state.sliceDoc())
          }),
        ],
      }),
    })
    void LanguageDescription.matchFilename(languages, name)
      ?.load()
      .then((support) => view.dispatch({ effects: language.reconfigure(support) }))
    return () => view.destroy()
  }, [name, readOnly])

  return <div ref={place} class="editor" />
}

const hintId = 'hint'

/** Names the keys that leave the editor, because Tab indents. */
function hint() {
  const dom = document.createElement('div')
  dom.id = hintId
  dom.textContent = texts.look.leaveEditor
  return { dom }
}

/** The line break of the text. Where it has several kinds, the others stay as characters, so that none is changed. */
function lineBreakOf(text: string): string {
  const others = text.replaceAll('\r\n', '')
  return text.includes('\r\n') && !/[\r\n]/.test(others) ? '\r\n' : '\n'
}
