/** An answer's markdown as elements. */
import { memo, useMemo } from "react";
import { parseMarkdown, type Block, type Inline } from "../markdown.ts";
import { FileLink } from "./file.tsx";
import { CopyButton } from "./verbatim.tsx";

export const RichText = memo(function RichText({ text }: { text: string }) {
  const blocks = useMemo(() => parseMarkdown(text), [text]);
  return <div className="rich">{blocks.map((block, index) => <BlockView key={index} block={block} />)}</div>;
});

function BlockView({ block }: { block: Block }) {
  switch (block.kind) {
    case "paragraph":
      return <p>{inline(block.inner)}</p>;
    case "quote":
      return <blockquote>{inline(block.inner)}</blockquote>;
    case "heading":
      // The page's own headings are the outline; an answer's must not cut into it.
      return <p className="heading" data-level={block.level}>{inline(block.inner)}</p>;
    case "rule":
      return <hr />;
    case "code":
      return (
        <div className="code">
          <CopyButton text={block.text} />
          <pre tabIndex={0}><code>{block.text}</code></pre>
        </div>
      );
    case "list": {
      const items = block.items.map((item, index) => <li key={index} data-depth={item.depth}>{inline(item.inner)}</li>);
      return block.ordered ? <ol start={block.start}>{items}</ol> : <ul>{items}</ul>;
    }
  }
}

function inline(pieces: Inline[]) {
  return pieces.map((piece, index) => {
    switch (piece.kind) {
      case "text":
        return <span key={index}>{piece.text}</span>;
      case "code":
        return <code key={index}>{piece.text}</code>;
      case "bold":
        return <strong key={index}>{inline(piece.inner)}</strong>;
      case "italic":
        return <em key={index}>{inline(piece.inner)}</em>;
      case "file":
        return <FileLink key={index} path={piece.path} text={piece.text} named={piece.named} />;
      case "link":
        return (
          <span key={index}>
            <a href={piece.href} target="_blank" rel="noopener noreferrer nofollow">{piece.text}</a>
            {piece.host && <span className="quiet"> ({piece.host})</span>}
          </span>
        );
    }
  });
}
