# trifold prep: what it prints, its options and its errors, and memory that does not grow.
. "$(dirname "$0")/lib.sh"

# says NAME TEXT: NAME.log has the line TEXT.
says() {
    grep -qx -- "$2" "$1.log" || {
        wrong "$1 does not say \"$2\""
        cat "$1.log"
    }
}

tok=$golden/tokenizer
hf="--tokenizer HFTokenizer --vocab $tok/tokenizer.json"
char="--tokenizer CharLevelTokenizer"
printf '{"text":"a"}\n{"text":""}\n{"text":"b<|endoftext|>"}\n' >three.jsonl

works eod 1 prep --input three.jsonl --output eod $hf --append-eod
for line in "output eod" "documents 2" "skipped 1" "eod 2" "bytes 15" "dtype uint16"; do
    says eod "$line"
done
works plain 1 prep --input three.jsonl --output plain $hf
says plain "eod 0"
works special 1 prep --input three.jsonl --output special $hf --parse-special
says special "tokens 3"
says special "eod 1"
# a, then b and the end of the document: 66 67 0 in 16 bits.
[ "$(od -An -tu2 special.bin | tr -s ' ')" = " 66 67 0" ] || wrong "special.bin: $(od -An -tu2 special.bin)"

# What is there stays as it is when a later run fails.
cp eod.bin before.bin
printf '{"text":"a"}\n{"text":\n' >bad.jsonl
fails bad 2 1 'bad\.jsonl:2:[0-9]+: not JSON' prep --input bad.jsonl --output eod $char
cmp -s eod.bin before.bin || wrong "a failed run changed eod.bin"
[ -z "$(ls *.part 2>/dev/null)" ] || wrong "a failed run left $(ls *.part)"

works gpt2 1 prep --input three.jsonl --output gpt2 --tokenizer gpt2bpetokenizer \
    --vocab "$tok/vocab.json" --merges "$tok/merges.txt" --append-eod --workers 3
cmp -s gpt2.bin eod.bin || wrong "GPT-2's files and tokenizer.json differ on plain text"

# Standard input, lines, keys.
printf 'one\ntwo\n' | works lines 1 prep --input - --output lines $char --split lines
says lines "documents 2"
printf '{"q":"x","a":"yy"}\n' | works keys 1 prep --input - --format jsonl --output keys $char \
    --json-keys q,a
says keys "output keys_a"
[ "$(stat -c %s keys_q.bin keys_a.bin | tr '\n' ' ')" = "2 4 " ] || wrong "keys: sizes differ"

fails no_key 2 1 'three\.jsonl:1:1: no key "body"' prep --input three.jsonl --output x $char \
    --json-keys body
fails no_input 2 1 'no input' prep --output x $char
fails no_output 2 1 'no output' prep --input three.jsonl $char
fails no_tokenizer 2 1 'no tokenizer' prep --input three.jsonl --output x
fails kind 2 1 'there is no tokenizer "SPM"; GPT2BPETokenizer' prep --input three.jsonl \
    --output x --tokenizer SPM
fails no_vocab 2 1 'a tokenizer\.json would be right' prep --input three.jsonl --output x \
    --tokenizer HFTokenizer
fails absent 2 1 'absent\.txt' prep --input three.jsonl absent.txt --output x $char
fails workers 2 1 '1 to 256' prep --input three.jsonl --output x $char --workers 0
fails split 2 1 'none, paragraphs or lines' prep --input three.jsonl --output x $char --split pages
fails option 2 1 'unknown option "--fast"' prep --input three.jsonl --output x $char --fast 1
fails value 2 1 'output needs a value' prep --input three.jsonl $char --output
fails stray 2 1 'belongs to no option' prep three.jsonl
fails folder 2 1 'nowhere' prep --input three.jsonl --output nowhere/x $char
works help 1 prep --help

# A million documents of one token; the sanitizers take their own memory, and time.
documents=1000000 limit=300000
if grep -qa __asan_init "$TRIFOLD"; then
    documents=20000 limit=3000000
fi
python3 -c "print('{\"text\": \"a\"}\n' * $documents, end='')" >many.jsonl
python3 - "$limit" "$TRIFOLD" prep --input many.jsonl --output many $hf --append-eod --workers 2 \
    >many.log <<'END' || wrong "many documents"
import resource, subprocess, sys
code = subprocess.call(sys.argv[2:])
used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(used, "kB", file=sys.stderr)
sys.exit(code or used > int(sys.argv[1]))
END
says many "documents $documents"
says many "tokens $((2 * documents))"
exit $failed
