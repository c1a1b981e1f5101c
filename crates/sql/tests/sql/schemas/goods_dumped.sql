CREATE TABLE public.goods (
    id integer NOT NULL,
    name character varying(40) NOT NULL,
    net numeric(10,2),
    live boolean DEFAULT true NOT NULL,
    gross numeric(12,2) GENERATED ALWAYS AS ((net * 1.2)) STORED,
    label text GENERATED ALWAYS AS ((lower((name)::text) || '!'::text)) STORED
);
ALTER TABLE public.goods OWNER TO postgres;
ALTER TABLE ONLY public.goods
    ADD CONSTRAINT goods_label_key UNIQUE (label);
ALTER TABLE ONLY public.goods
    ADD CONSTRAINT goods_pkey PRIMARY KEY (id);
CREATE UNIQUE INDEX goods_live ON public.goods USING btree (name, gross) WHERE (live AND ((name)::text <> 'x'::text));
CREATE UNIQUE INDEX goods_name ON public.goods USING btree (lower((name)::text));
CREATE INDEX goods_sum ON public.goods USING btree (((id + 1)), ((net IS NULL)), COALESCE(net, (0)::numeric)) WHERE live;
